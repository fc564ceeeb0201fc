//! One value to standard output, in the format that was asked for.

use crate::{CliError, Format};
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Prints `value` whole. JSON and YAML are the API's own shapes; the table is for people.
pub(crate) fn print<T: Serialize + ?Sized>(
    format: Format,
    value: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), CliError> {
    let text = match format {
        Format::Table => table(value),
        Format::Json => to_json(value)? + "\n",
        Format::Yaml => to_yaml(value)?,
    };
    write(text.as_bytes())
}

/// One line, or one document, of a stream of values.
pub(crate) fn print_streamed<T: Serialize + ?Sized>(
    format: Format,
    value: &T,
    line: impl FnOnce(&T) -> String,
) -> Result<(), CliError> {
    let text = match format {
        Format::Table => line(value) + "\n",
        Format::Json => serde_json::to_string(value).map_err(|error| CliError::Print(error.to_string()))? + "\n",
        Format::Yaml => format!("---\n{}", to_yaml(value)?),
    };
    write(text.as_bytes())
}

fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, CliError> {
    serde_json::to_string_pretty(value).map_err(|error| CliError::Print(error.to_string()))
}

/// A value as one YAML document.
pub fn to_yaml<T: Serialize + ?Sized>(value: &T) -> Result<String, CliError> {
    let value = serde_json::to_value(value).map_err(|error| CliError::Print(error.to_string()))?;
    let mut text = serde_saphyr::to_string(&value).map_err(|error| CliError::Print(error.to_string()))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

pub(crate) fn write(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(CliError::Closed),
        Err(error) => Err(CliError::Stdout(error)),
    }
}
