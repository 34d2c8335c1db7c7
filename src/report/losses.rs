//! What a capture lacks, in sentences: every view says them, since a figure from half a record is worse than none.

use super::Records;
use crate::render::units;

/// What is missing, and what that means for the figures; empty when every record from the first call on is there.
pub fn losses(records: &Records) -> Vec<String> {
    let mut losses = Vec::new();
    if records.overwritten > 0 {
        losses.push(format!(
            "the first {} were overwritten: objects born in them and still alive are not shown, and a peak among them is not known. \
            GPUSHIM_SIZE, or `gpushim run --size`, makes the record longer.",
            units::count(records.overwritten, "record", "records"),
        ));
    }
    if records.dropped > 0 {
        let why = if records.counters.contains_key("dropped_ring_not_ready") {
            "the disk or a limit gave the capture no more space"
        } else {
            "a slot was still being written a lap later"
        };
        losses.push(format!(
            "the recorder dropped {}, as {why}: a birth or an end may not be seen.",
            units::count(records.dropped, "record", "records")
        ));
    }
    if records.cut_off > 0 {
        losses.push(format!(
            "the file is cut off: {} not in it.",
            units::count(records.cut_off, "record is", "records are")
        ));
    }
    if let Some(missed) = records.counters.get("missed_while_opening") {
        losses.push(format!(
            "{} while the capture was being opened: what they did is not seen.",
            units::count(*missed, "call came", "calls came")
        ));
    }
    if records.unknown_calls > 0 {
        losses.push(format!(
            "{} of a call that only a later gpushim knows.",
            units::count(records.unknown_calls, "record is", "records are")
        ));
    }
    losses
}
