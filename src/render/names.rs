//! Names that people know: results of the driver, devices, signals.

/// The driver's name of a result.
pub fn result(code: u16) -> String {
    let name = match code {
        0 => "SUCCESS",
        1 => "INVALID_VALUE",
        2 => "OUT_OF_MEMORY",
        3 => "NOT_INITIALIZED",
        4 => "DEINITIALIZED",
        46 => "DEVICE_UNAVAILABLE",
        100 => "NO_DEVICE",
        101 => "INVALID_DEVICE",
        200 => "INVALID_IMAGE",
        201 => "INVALID_CONTEXT",
        202 => "CONTEXT_ALREADY_CURRENT",
        209 => "NO_BINARY_FOR_GPU",
        214 => "ECC_UNCORRECTABLE",
        216 => "CONTEXT_ALREADY_IN_USE",
        218 => "INVALID_PTX",
        304 => "OPERATING_SYSTEM",
        400 => "INVALID_HANDLE",
        401 => "ILLEGAL_STATE",
        500 => "NOT_FOUND",
        600 => "NOT_READY",
        700 => "ILLEGAL_ADDRESS",
        701 => "LAUNCH_OUT_OF_RESOURCES",
        702 => "LAUNCH_TIMEOUT",
        708 => "PRIMARY_CONTEXT_ACTIVE",
        709 => "CONTEXT_IS_DESTROYED",
        710 => "ASSERT",
        712 => "HOST_MEMORY_ALREADY_REGISTERED",
        713 => "HOST_MEMORY_NOT_REGISTERED",
        719 => "LAUNCH_FAILED",
        800 => "NOT_PERMITTED",
        801 => "NOT_SUPPORTED",
        802 => "SYSTEM_NOT_READY",
        803 => "SYSTEM_DRIVER_MISMATCH",
        900 => "STREAM_CAPTURE_UNSUPPORTED",
        901 => "STREAM_CAPTURE_INVALIDATED",
        906 => "STREAM_CAPTURE_IMPLICIT",
        999 => "UNKNOWN",
        other => return format!("error {other}"),
    };
    name.to_owned()
}

/// A device's UUID as `nvidia-smi -L` prints it.
pub fn uuid(id: [u8; 16]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "GPU-{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// Its beginning, enough to tell devices apart.
pub fn short_uuid(id: [u8; 16]) -> String {
    uuid(id)[..12].to_owned()
}

/// A signal's name.
pub fn signal(number: i32) -> String {
    signal_hook::low_level::signal_name(number)
        .map_or_else(|| format!("signal {number}"), str::to_owned)
}
