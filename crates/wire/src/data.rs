//! The messages of the data plane: what a trainer asks of a service, and what the service replies.
//!
//! Each has a fixed body of 48 bytes, so that a push costs no parsing. What a field means depends on the message;
//! fields that a message does not use are zero.
//!
//! ```text
//!  0 generation u64   16 table u32   24 samples u64              40 cost, view, pass, round or port u64
//!  8 step u64         20 count u32   32 ticket or order u64
//! ```

use crate::frame::{FrameError, FrameKind};
use crate::ids::{Generation, Step, TableId};

/// Bytes of the body of a data-plane frame.
pub(crate) const BODY: usize = 48;

/// A message with the generation and step that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stamped<M> {
    /// The generation that the sender is in.
    pub generation: Generation,
    /// The batch that is pushed or finished; in pulls and values, the number of applied batches.
    pub step: Step,
    /// What is asked or replied.
    pub message: M,
}

/// Where the values of a message are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// In the payload of the frame.
    Payload,
    /// In memory that both processes share.
    Memory,
}

/// Names the rows of a pull, so that the push that follows need not repeat their ids. Counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// What a trainer asks of a service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Request {
    /// Initial values of a table, sent by trainer 0 after an open command.
    Initial {
        /// A table that the command announced.
        table: TableId,
        /// Sparse table: rows in the payload; 0 ends them. Dense table: 0.
        rows: u32,
        /// The server's port that holds the values.
        port: u32,
    },
    /// The gradient of a dense table.
    PushDense {
        /// The table.
        table: TableId,
        /// Samples in the trainer's batch.
        samples: u64,
        /// With gaps: the service's blocks of the table, each with a mask in the payload. 0: sent whole.
        blocks: u32,
        /// Memory: the values are in the outbox.
        carrier: Carrier,
    },
    /// The gradient of a dense table whose other rows are zero: of each row, what the service holds.
    PushDenseRows {
        /// The table.
        table: TableId,
        /// Number of rows; they ascend.
        rows: u32,
        /// Samples in the trainer's batch.
        samples: u64,
        /// The rows of this pull; `None`: their ids are in the payload.
        ticket: Option<Ticket>,
    },
    /// Gradients of rows of a sparse table.
    PushRows {
        /// The table.
        table: TableId,
        /// Number of rows.
        rows: u32,
        /// Samples in the trainer's batch.
        samples: u64,
        /// The rows of this pull; `None`: their ids are in the payload.
        ticket: Option<Ticket>,
        /// Memory: the values are in the row buffer.
        carrier: Carrier,
    },
    /// The trainer has pushed all of its batch.
    FinishBatch {
        /// Samples in the batch.
        samples: u64,
        /// Sum of the cost over the samples.
        cost: f64,
        /// The step of a snapshot that this trainer orders.
        order: Option<Step>,
    },
    /// Requests the values of all dense tables of a service, except those whose numbers (u32) are in the payload: of
    /// these, rows follow by [`Request::PullDenseRows`].
    PullDense {
        /// Which values.
        view: View,
        /// Number of tables in the payload.
        except: u32,
    },
    /// Requests rows of a dense table for training: of each row whose id is in the payload, what the service holds.
    PullDenseRows {
        /// The table.
        table: TableId,
        /// Number of row ids in the payload; they ascend.
        rows: u32,
    },
    /// Requests rows of a sparse table.
    PullRows {
        /// The table.
        table: TableId,
        /// Number of row ids in the payload.
        rows: u32,
        /// Which values.
        view: View,
    },
    /// The trainer has no more data in this pass. The reply is sent when no trainer has.
    FinishPass {
        /// The open pass.
        pass: u64,
    },
    /// The trainer has finished its tests and saves at the end of the pass. The reply is sent when trainer 0 has.
    EndPass {
        /// The pass that is over.
        pass: u64,
    },
    /// Values to be summed over all trainers.
    Reduce {
        /// Number of the call, from 1.
        round: u64,
        /// Number of `f64` values in the payload.
        count: u32,
    },
    /// A trainer on the same host requests shared memory for dense tables.
    Share,
    /// A trainer on the same host requests a row buffer.
    ShareRows {
        /// The table.
        table: TableId,
        /// Rows that it must have room for.
        rows: u32,
    },
}

/// What a service replies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reply {
    /// The requested values of a table.
    Values {
        /// The table.
        table: TableId,
        /// Names these rows for the push that follows.
        ticket: Option<Ticket>,
        /// Memory: the values are the server's own, or, for rows, in the row buffer.
        carrier: Carrier,
    },
    /// No trainer has more data in this pass.
    PassOver {
        /// The pass.
        pass: u64,
    },
    /// The pass has ended for all trainers.
    PassEnded {
        /// The next pass.
        pass: u64,
    },
    /// All trainers have sent theirs: the sum is in the payload.
    Reduced {
        /// Number of the call.
        round: u64,
    },
    /// Shared memory follows as this many file descriptors, with one more byte; 0: there is none.
    Shared {
        /// Number of descriptors.
        descriptors: u32,
    },
}

/// Which values of a table a pull requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// The values that the next batch is computed with. A row that does not exist yet is created.
    #[default]
    Training,
    /// The values as they are now, for testing and saving. Creates no rows.
    Current,
    /// The model average where the table keeps one, otherwise the values. Creates no rows.
    Averaged,
}

impl View {
    fn number(self) -> u64 {
        match self {
            Self::Training => 0,
            Self::Current => 1,
            Self::Averaged => 2,
        }
    }

    fn from_number(number: u64) -> Option<Self> {
        let all = [Self::Training, Self::Current, Self::Averaged];
        all.into_iter().find(|view| view.number() == number)
    }
}

/// A data-plane message as it is sent, apart from its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// The fixed body.
    pub body: [u8; BODY],
}

/// The fields of a body before they are given a meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Fields {
    generation: u64,
    step: u64,
    table: u32,
    count: u32,
    samples: u64,
    ticket: u64,
    value: u64,
}

impl Fields {
    fn encode(&self) -> [u8; BODY] {
        let mut out = [0_u8; BODY];
        out[0..8].copy_from_slice(&self.generation.to_le_bytes());
        out[8..16].copy_from_slice(&self.step.to_le_bytes());
        out[16..20].copy_from_slice(&self.table.to_le_bytes());
        out[20..24].copy_from_slice(&self.count.to_le_bytes());
        out[24..32].copy_from_slice(&self.samples.to_le_bytes());
        out[32..40].copy_from_slice(&self.ticket.to_le_bytes());
        out[40..48].copy_from_slice(&self.value.to_le_bytes());
        out
    }

    fn decode(kind: FrameKind, body: &[u8]) -> Result<Self, FrameError> {
        let body: &[u8; BODY] = body.try_into().map_err(|_| FrameError::Malformed {
            kind,
            reason: format!("{} bytes where {BODY} belong", body.len()),
        })?;
        let u64_at = |at: usize| {
            let mut word = [0_u8; 8];
            word.copy_from_slice(&body[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Ok(Self {
            generation: u64_at(0),
            step: u64_at(8),
            table: u64_at(16) as u32,
            count: (u64_at(16) >> 32) as u32,
            samples: u64_at(24),
            ticket: u64_at(32),
            value: u64_at(40),
        })
    }

    fn ticket(&self) -> Option<Ticket> {
        (self.ticket != 0).then_some(Ticket(self.ticket))
    }

    fn view(&self, kind: FrameKind) -> Result<View, FrameError> {
        View::from_number(self.value).ok_or_else(|| FrameError::Malformed {
            kind,
            reason: format!("there is no view {}", self.value),
        })
    }

    fn port(&self, kind: FrameKind) -> Result<u32, FrameError> {
        u32::try_from(self.value).map_err(|_| FrameError::Malformed {
            kind,
            reason: format!("there is no port {}", self.value),
        })
    }

    fn stamp<M>(&self, message: M) -> Stamped<M> {
        Stamped {
            generation: Generation(self.generation),
            step: Step(self.step),
            message,
        }
    }
}

impl<M> Stamped<M> {
    fn encode_as(&self, kind: FrameKind, fields: Fields) -> Encoded {
        let fields = Fields {
            generation: self.generation.0,
            step: self.step.0,
            ..fields
        };
        Encoded {
            kind,
            body: fields.encode(),
        }
    }
}

impl Stamped<Request> {
    /// The request as it is sent.
    pub fn encode(&self) -> Encoded {
        let (kind, fields) = self.message.fields();
        self.encode_as(kind, fields)
    }

    /// Reads a request. An error of the kind [`FrameError::Malformed`] leaves the connection usable.
    pub fn decode(kind: FrameKind, body: &[u8]) -> Result<Self, FrameError> {
        let fields = Fields::decode(kind, body)?;
        Ok(fields.stamp(Request::from_fields(kind, &fields)?))
    }
}

impl Stamped<Reply> {
    /// The reply as it is sent.
    pub fn encode(&self) -> Encoded {
        let (kind, fields) = self.message.fields();
        self.encode_as(kind, fields)
    }

    /// Reads a reply.
    pub fn decode(kind: FrameKind, body: &[u8]) -> Result<Self, FrameError> {
        let fields = Fields::decode(kind, body)?;
        Ok(fields.stamp(Reply::from_fields(kind, &fields)?))
    }
}

impl Request {
    fn fields(&self) -> (FrameKind, Fields) {
        let none = Fields::default();
        match *self {
            Self::Initial { table, rows, port } => {
                let fields = Fields {
                    table: table.0,
                    count: rows,
                    value: u64::from(port),
                    ..none
                };
                (FrameKind::Initial, fields)
            }
            Self::PushDense {
                table,
                samples,
                blocks,
                carrier,
            } => {
                let kind = match carrier {
                    Carrier::Payload => FrameKind::PushDense,
                    Carrier::Memory => FrameKind::PushPlaced,
                };
                let fields = Fields {
                    table: table.0,
                    count: blocks,
                    samples,
                    ..none
                };
                (kind, fields)
            }
            Self::PushDenseRows {
                table,
                rows,
                samples,
                ticket,
            } => {
                let fields = Fields {
                    table: table.0,
                    count: rows,
                    samples,
                    ticket: ticket.map_or(0, |ticket| ticket.0),
                    ..none
                };
                (FrameKind::PushDenseRows, fields)
            }
            Self::PushRows {
                table,
                rows,
                samples,
                ticket,
                carrier,
            } => {
                let kind = match carrier {
                    Carrier::Payload => FrameKind::PushRows,
                    Carrier::Memory => FrameKind::PushRowsPlaced,
                };
                let fields = Fields {
                    table: table.0,
                    count: rows,
                    samples,
                    ticket: ticket.map_or(0, |ticket| ticket.0),
                    ..none
                };
                (kind, fields)
            }
            Self::FinishBatch {
                samples,
                cost,
                order,
            } => {
                let fields = Fields {
                    samples,
                    ticket: order.map_or(0, |step| step.0),
                    value: cost.to_bits(),
                    ..none
                };
                (FrameKind::FinishBatch, fields)
            }
            Self::PullDense { view, except } => {
                let fields = Fields {
                    count: except,
                    value: view.number(),
                    ..none
                };
                (FrameKind::PullDense, fields)
            }
            Self::PullDenseRows { table, rows } => {
                let fields = Fields {
                    table: table.0,
                    count: rows,
                    ..none
                };
                (FrameKind::PullDenseRows, fields)
            }
            Self::PullRows { table, rows, view } => {
                let fields = Fields {
                    table: table.0,
                    count: rows,
                    value: view.number(),
                    ..none
                };
                (FrameKind::PullRows, fields)
            }
            Self::FinishPass { pass } => (
                FrameKind::FinishPass,
                Fields {
                    value: pass,
                    ..none
                },
            ),
            Self::EndPass { pass } => (
                FrameKind::EndPass,
                Fields {
                    value: pass,
                    ..none
                },
            ),
            Self::Reduce { round, count } => {
                let fields = Fields {
                    count,
                    value: round,
                    ..none
                };
                (FrameKind::Reduce, fields)
            }
            Self::Share => (FrameKind::Share, none),
            Self::ShareRows { table, rows } => {
                let fields = Fields {
                    table: table.0,
                    count: rows,
                    ..none
                };
                (FrameKind::ShareRows, fields)
            }
        }
    }

    fn from_fields(kind: FrameKind, fields: &Fields) -> Result<Self, FrameError> {
        let table = TableId(fields.table);
        let push_dense = |carrier| Self::PushDense {
            table,
            samples: fields.samples,
            blocks: fields.count,
            carrier,
        };
        let push_rows = |carrier| Self::PushRows {
            table,
            rows: fields.count,
            samples: fields.samples,
            ticket: fields.ticket(),
            carrier,
        };
        Ok(match kind {
            FrameKind::Initial => Self::Initial {
                table,
                rows: fields.count,
                port: fields.port(kind)?,
            },
            FrameKind::PushDense => push_dense(Carrier::Payload),
            FrameKind::PushPlaced => push_dense(Carrier::Memory),
            FrameKind::PushDenseRows => Self::PushDenseRows {
                table,
                rows: fields.count,
                samples: fields.samples,
                ticket: fields.ticket(),
            },
            FrameKind::PushRows => push_rows(Carrier::Payload),
            FrameKind::PushRowsPlaced => push_rows(Carrier::Memory),
            FrameKind::FinishBatch => Self::FinishBatch {
                samples: fields.samples,
                cost: f64::from_bits(fields.value),
                order: (fields.ticket != 0).then_some(Step(fields.ticket)),
            },
            FrameKind::PullDense => Self::PullDense {
                view: fields.view(kind)?,
                except: fields.count,
            },
            FrameKind::PullDenseRows => Self::PullDenseRows {
                table,
                rows: fields.count,
            },
            FrameKind::PullRows => Self::PullRows {
                table,
                rows: fields.count,
                view: fields.view(kind)?,
            },
            FrameKind::FinishPass => Self::FinishPass { pass: fields.value },
            FrameKind::EndPass => Self::EndPass { pass: fields.value },
            FrameKind::Reduce => Self::Reduce {
                round: fields.value,
                count: fields.count,
            },
            FrameKind::Share => Self::Share,
            FrameKind::ShareRows => Self::ShareRows {
                table,
                rows: fields.count,
            },
            got => {
                return Err(FrameError::Unexpected {
                    got,
                    wanted: "a push, pull, finish or reduce",
                });
            }
        })
    }
}

impl Reply {
    fn fields(&self) -> (FrameKind, Fields) {
        let none = Fields::default();
        match *self {
            Self::Values {
                table,
                ticket,
                carrier,
            } => {
                let kind = match carrier {
                    Carrier::Payload => FrameKind::Values,
                    Carrier::Memory => FrameKind::ValuesPlaced,
                };
                let fields = Fields {
                    table: table.0,
                    ticket: ticket.map_or(0, |ticket| ticket.0),
                    ..none
                };
                (kind, fields)
            }
            Self::PassOver { pass } => (
                FrameKind::PassOver,
                Fields {
                    value: pass,
                    ..none
                },
            ),
            Self::PassEnded { pass } => (
                FrameKind::PassEnded,
                Fields {
                    value: pass,
                    ..none
                },
            ),
            Self::Reduced { round } => {
                let value = round;
                (FrameKind::Reduced, Fields { value, ..none })
            }
            Self::Shared { descriptors } => {
                let count = descriptors;
                (FrameKind::Shared, Fields { count, ..none })
            }
        }
    }

    fn from_fields(kind: FrameKind, fields: &Fields) -> Result<Self, FrameError> {
        let values = |carrier| Self::Values {
            table: TableId(fields.table),
            ticket: fields.ticket(),
            carrier,
        };
        Ok(match kind {
            FrameKind::Values => values(Carrier::Payload),
            FrameKind::ValuesPlaced => values(Carrier::Memory),
            FrameKind::PassOver => Self::PassOver { pass: fields.value },
            FrameKind::PassEnded => Self::PassEnded { pass: fields.value },
            FrameKind::Reduced => Self::Reduced {
                round: fields.value,
            },
            FrameKind::Shared => Self::Shared {
                descriptors: fields.count,
            },
            got => {
                return Err(FrameError::Unexpected {
                    got,
                    wanted: "a reply of a service",
                });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamped<M>(message: M) -> Stamped<M> {
        Stamped {
            generation: Generation(3),
            step: Step(70_000_000_000),
            message,
        }
    }

    #[test]
    fn every_message_comes_back() {
        let table = TableId(u32::MAX);
        let push = |carrier| Request::PushRows {
            table,
            rows: 9,
            samples: u64::MAX,
            ticket: Some(Ticket(5)),
            carrier,
        };
        let dense = |carrier| Request::PushDense {
            table,
            samples: 128,
            blocks: 4,
            carrier,
        };
        let finish = |order| Request::FinishBatch {
            samples: 7,
            cost: -0.25,
            order,
        };
        let requests = [
            Request::Initial {
                table,
                rows: 1 << 20,
                port: 3,
            },
            dense(Carrier::Payload),
            dense(Carrier::Memory),
            Request::PushDenseRows {
                table,
                rows: 3,
                samples: 128,
                ticket: Some(Ticket(5)),
            },
            push(Carrier::Payload),
            push(Carrier::Memory),
            finish(None),
            finish(Some(Step(11))),
            Request::PullDense {
                view: View::Averaged,
                except: 2,
            },
            Request::PullDenseRows { table, rows: 3 },
            Request::PullRows {
                table,
                rows: 2,
                view: View::Current,
            },
            Request::FinishPass { pass: 8 },
            Request::EndPass { pass: 8 },
            Request::Reduce { round: 6, count: 2 },
            Request::Share,
            Request::ShareRows { table, rows: 12 },
        ];
        for request in requests.map(stamped) {
            let sent = request.encode();
            assert_eq!(
                Stamped::<Request>::decode(sent.kind, &sent.body),
                Ok(request)
            );
            assert!(Stamped::<Reply>::decode(sent.kind, &sent.body).is_err());
        }
        let values = |carrier| Reply::Values {
            table,
            ticket: Some(Ticket(1)),
            carrier,
        };
        let replies = [
            values(Carrier::Payload),
            values(Carrier::Memory),
            Reply::PassOver { pass: 1 },
            Reply::PassEnded { pass: 2 },
            Reply::Reduced { round: 3 },
            Reply::Shared { descriptors: 2 },
        ];
        for reply in replies.map(stamped) {
            let sent = reply.encode();
            assert_eq!(Stamped::<Reply>::decode(sent.kind, &sent.body), Ok(reply));
            assert!(Stamped::<Request>::decode(sent.kind, &sent.body).is_err());
        }
    }

    #[test]
    fn bytes_are_those_of_the_document() {
        let sent = stamped(Request::FinishBatch {
            samples: 2,
            cost: 1.0,
            order: Some(Step(5)),
        })
        .encode();
        assert_eq!(sent.kind, FrameKind::FinishBatch);
        assert_eq!(sent.body[0..8], 3_u64.to_le_bytes());
        assert_eq!(sent.body[8..16], 70_000_000_000_u64.to_le_bytes());
        assert_eq!(sent.body[16..24], [0; 8]);
        assert_eq!(sent.body[24..32], 2_u64.to_le_bytes());
        assert_eq!(sent.body[32..40], 5_u64.to_le_bytes());
        assert_eq!(sent.body[40..48], 1.0_f64.to_bits().to_le_bytes());
    }

    #[test]
    fn a_view_that_does_not_exist_is_refused() {
        let mut sent = stamped(Request::PullDense {
            view: View::Training,
            except: 0,
        })
        .encode();
        sent.body[40] = 77;
        let error = Stamped::<Request>::decode(sent.kind, &sent.body).unwrap_err();
        assert!(error.to_string().contains("there is no view 77"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_message_or_an_error(kind in 0_u8..64, bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(kind) = FrameKind::from_byte(kind) {
                let _ = Stamped::<Request>::decode(kind, &bytes);
                let _ = Stamped::<Reply>::decode(kind, &bytes);
            }
        }
    }
}
