//! The fast path through containers whose members are not recorded: most of the bytes of most objects.

use super::{Scan, State, scalar_end};
use crate::json::text::{StringEnd, skip_string};

impl Scan {
    /// Return whether the scan is in a container whose members are not recorded.
    pub(super) fn may_skim(&self) -> bool {
        self.is_unwanted(self.depth) && !matches!(self.state, State::Colon)
    }

    fn is_unwanted(&self, depth: usize) -> bool {
        depth > 0 && self.wanted.get(depth).is_none_or(|wanted| !wanted)
    }

    /// Scan while the text is compact, complete and valid, up to the end of the outermost unrecorded container.
    /// Anything else is left to the caller.
    pub(super) fn skim(&mut self, bytes: &[u8], from: usize) -> usize {
        let mut at = from;
        let mut state = self.state;
        let mut object = self.in_object();
        loop {
            if matches!(state, State::FirstKey | State::Key) {
                match bytes.get(at) {
                    Some(b'"') => {}
                    Some(b'}') if state == State::FirstKey && self.is_unwanted(self.depth - 1) => {
                        (at, state, object) = (at + 1, State::After, self.leave());
                        continue;
                    }
                    _ => break,
                }
                let StringEnd::At(end) = skip_string(bytes, at + 1) else {
                    break;
                };
                if bytes.get(end) != Some(&b':') {
                    break;
                }
                (at, state) = (end + 1, State::Value);
            }
            if state != State::After {
                match bytes.get(at) {
                    Some(b'"') => {
                        let StringEnd::At(end) = skip_string(bytes, at + 1) else {
                            break;
                        };
                        at = end;
                    }
                    Some(b'{') if self.depth < self.limit => {
                        self.enter(true);
                        (at, state, object) = (at + 1, State::FirstKey, true);
                        continue;
                    }
                    Some(b'[') if self.depth < self.limit => {
                        self.enter(false);
                        (at, state, object) = (at + 1, State::FirstItem, false);
                        continue;
                    }
                    Some(b']') if state == State::FirstItem && self.is_unwanted(self.depth - 1) => {
                        (at, state, object) = (at + 1, State::After, self.leave());
                        continue;
                    }
                    Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                        let Ok(Some(end)) = scalar_end(bytes, at) else {
                            break;
                        };
                        at = end;
                    }
                    _ => break,
                }
                state = State::After;
            }
            match bytes.get(at) {
                Some(b',') => {
                    at += 1;
                    state = if object { State::Key } else { State::Value };
                }
                Some(b'}') if object && self.is_unwanted(self.depth - 1) => {
                    at += 1;
                    object = self.leave();
                }
                Some(b']') if !object && self.is_unwanted(self.depth - 1) => {
                    at += 1;
                    object = self.leave();
                }
                _ => break,
            }
        }
        self.state = state;
        at
    }

    /// Enter a container inside an unrecorded one.
    fn enter(&mut self, object: bool) {
        self.push(object);
        if let Some(wanted) = self.wanted.get_mut(self.depth) {
            *wanted = false;
        }
    }

    /// Leave a container; return whether the outer one is an object.
    fn leave(&mut self) -> bool {
        self.depth -= 1;
        self.in_object()
    }
}
