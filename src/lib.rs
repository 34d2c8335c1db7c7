//! The reading half of gpushim: captures to answers.
//!
//! [`capture`] turns bytes into records and believes none of them; [`ledger`] and [`timeline`] are pure and turn records into
//! what is alive and how it went; [`report`] is the model behind `gpushim report`; [`session`] finds captures; [`commands`]
//! has one module a verb; [`render`] makes values readable.
#![forbid(unsafe_code)]

pub mod capture;
pub mod cli;
pub mod commands;
pub mod error;
pub mod ledger;
pub mod render;
pub mod report;
pub mod session;
pub mod timeline;
