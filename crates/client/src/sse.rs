//! Server-sent events, as far as `/watch` uses them (WHATWG HTML, section 9.2.6): fields `id`, `event`, `data`,
//! comments, a blank line that ends an event. Bytes in, events out.

use crate::ClientError;

/// Largest event, bytes; anything longer is not a stream of ours.
const EVENT_BYTES_MAX: usize = 4 << 20;

/// One event as it stood in the stream.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct SseEvent {
    pub id: String,
    /// Empty for a plain message.
    pub event: String,
    pub data: String,
}

/// Cuts a byte stream into events, wherever the chunks end.
#[derive(Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    /// The last line ended in CR, so a LF that follows belongs to it.
    after_cr: bool,
    event: SseEvent,
    has_data: bool,
}

impl SseParser {
    /// Takes a chunk; returns the events it completed.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<SseEvent>, ClientError> {
        let mut events = Vec::new();
        for &byte in chunk {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                continue;
            }
            match byte {
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    self.end_of_line(&line, &mut events)?;
                }
                _ if self.line.len() + self.event.data.len() >= EVENT_BYTES_MAX => {
                    return Err(ClientError::Stream("an event is longer than 4 MiB"));
                }
                _ => self.line.push(byte),
            }
        }
        Ok(events)
    }

    fn end_of_line(&mut self, line: &[u8], events: &mut Vec<SseEvent>) -> Result<(), ClientError> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) {
                events.push(event);
            }
            return Ok(());
        }
        let line = std::str::from_utf8(line).map_err(|_| ClientError::Stream("a line is not UTF-8"))?;
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = value.to_owned(),
            "event" => self.event.event = value.to_owned(),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            // Comments have an empty field name; unknown fields are ignored by the rules.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<(String, String, String)> {
        let mut parser = SseParser::default();
        let mut all = Vec::new();
        for chunk in chunks {
            all.extend(parser.push(chunk).expect("well formed"));
        }
        all.into_iter().map(|event| (event.id, event.event, event.data)).collect()
    }

    #[test]
    fn the_cut_of_the_chunks_does_not_matter() {
        let stream = b": hi\nid: 7\nevent: position\ndata: {}\n\nid:8\r\ndata:a\r\ndata: b\r\n\r\n: keep-alive\n\n";
        let whole = parse(&[stream]);
        assert_eq!(whole, [("7".into(), "position".into(), "{}".into()), ("8".into(), "".into(), "a\nb".into())]);
        for cut in 0..stream.len() {
            assert_eq!(parse(&[&stream[..cut], &stream[cut..]]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn an_event_without_end_is_not_collected_for_ever() {
        let mut parser = SseParser::default();
        let chunk = vec![b'x'; 1 << 20];
        assert!((0..8).any(|_| parser.push(&chunk).is_err()));
    }
}
