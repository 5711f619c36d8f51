//! The first three frames of a connection: challenge, hello, welcome. Both proofs name the connection they are sent
//! over, so that a man in the middle cannot use them on another one.

use crate::auth::{ProofContext, Token, nonce};
use crate::channel::{Channel, ChannelError, json_frame};
use crate::frame::{FrameError, FrameKind, FrameLimits, HEAD, Head};
use crate::message::{Challenge, Code, Hello, Refusal, Welcome, from_body};
use crate::recovery::ServerReport;

/// The client's half: replies to the challenge and checks the server's proof. Fills in `hello`'s nonce and proof.
pub fn greet(
    channel: &mut Channel,
    token: &Token,
    mut hello: Hello,
) -> Result<ServerReport, ChannelError> {
    let challenge: Challenge = channel.expect(FrameKind::Challenge)?;
    let connection = channel.stream().name();
    hello.nonce = nonce();
    let own = hello.nonce.clone();
    let meeting = ProofContext {
        connection: &connection,
        server: &challenge.nonce,
        client: &own,
    };
    hello.proof = token.client_proof(&meeting);
    channel.send(FrameKind::Hello, &hello)?;
    // The report may be long; a foreign server can waste this process's time, not its memory.
    channel.trust();
    let welcome: Welcome = channel.expect(FrameKind::Welcome)?;
    if !token.check_server(&meeting, &welcome.proof) {
        let text = "the server does not know the job token, or another program relays the connection: give all \
                    processes of the job the same CANOE_JOB_TOKEN"
            .to_owned();
        let refusal = Refusal {
            code: Code::Denied,
            text,
        };
        return Err(ChannelError::Refused {
            peer: channel.peer().to_owned(),
            refusal,
        });
    }
    Ok(welcome.report)
}

/// Why a stranger's first frame is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// The frame is not a hello, or it cannot be read.
    #[error("broke the protocol")]
    Frame(#[from] FrameError),
    /// The proof is wrong: the stranger does not know the token, or the proof was made for another connection.
    #[error("wrong job token: give all processes of the job the same CANOE_JOB_TOKEN")]
    Token,
}

impl GreetingError {
    /// The error frame to send to the other side; it is the second frame that the server sends.
    pub fn frame(&self) -> Vec<u8> {
        let refusal = match self {
            Self::Frame(source) => Refusal {
                code: Code::Invalid,
                text: source.to_string(),
            },
            Self::Token => Refusal {
                code: Code::Denied,
                text: self.to_string(),
            },
        };
        json_frame(FrameKind::Error, &refusal, 1)
    }
}

/// The server's half, first part: challenges a stranger and checks its proof. Without I/O, so that one thread can serve
/// any number of strangers. The caller decides whether to admit it and replies with [`welcome`] or a refusal.
#[derive(Debug)]
pub(crate) struct Greeting {
    nonce: String,
    input: Vec<u8>,
}

impl Greeting {
    /// A greeting, and the challenge to send.
    pub(crate) fn new() -> (Self, Vec<u8>) {
        let nonce = nonce();
        let challenge = Challenge {
            nonce: nonce.clone(),
        };
        let frame = json_frame(FrameKind::Challenge, &challenge, 0);
        let input = Vec::new();
        (Self { nonce, input }, frame)
    }

    /// Whether nothing has arrived yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.input.is_empty()
    }

    /// Bytes that may be read next: never more than belong to the hello.
    pub(crate) fn wants(&self) -> usize {
        match self.head() {
            Some(Ok(head)) => (HEAD + head.body as usize).saturating_sub(self.input.len()),
            _ => HEAD.saturating_sub(self.input.len()),
        }
    }

    fn head(&self) -> Option<Result<Head, FrameError>> {
        let bytes: &[u8; HEAD] = self.input.first_chunk()?;
        Some(Head::decode(bytes, &FrameLimits::STRANGER))
    }

    /// Takes bytes that have arrived on the connection with this name. Returns the hello when it is complete and its
    /// proof is right.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        token: &Token,
        connection: &str,
    ) -> Result<Option<Hello>, GreetingError> {
        self.input.extend_from_slice(bytes);
        let Some(head) = self.head().transpose()? else {
            return Ok(None);
        };
        if head.kind != FrameKind::Hello {
            let (got, wanted) = (head.kind, "a hello");
            return Err(FrameError::Unexpected { got, wanted }.into());
        }
        if head.sequence != 0 {
            let (got, want) = (head.sequence, 0);
            return Err(FrameError::Sequence { got, want }.into());
        }
        if self.wants() > 0 {
            return Ok(None);
        }
        let body = &self.input[HEAD..];
        if crc32fast::hash(body) != head.body_crc {
            return Err(FrameError::BodyChecksum.into());
        }
        let hello: Hello = from_body(head.kind, body)?;
        let meeting = ProofContext {
            connection,
            server: &self.nonce,
            client: &hello.nonce,
        };
        if !token.check_client(&meeting, &hello.proof) {
            return Err(GreetingError::Token);
        }
        Ok(Some(hello))
    }

    /// The server's random number, for [`welcome`].
    pub(crate) fn nonce(&self) -> &str {
        &self.nonce
    }
}

/// The server's half, second part: its proof and its report.
pub fn welcome(
    channel: &mut Channel,
    token: &Token,
    own_nonce: &str,
    hello: &Hello,
    report: ServerReport,
) -> Result<(), ChannelError> {
    let connection = channel.stream().name();
    let proof = token.server_proof(&ProofContext {
        connection: &connection,
        server: own_nonce,
        client: &hello.nonce,
    });
    channel.send(FrameKind::Welcome, &Welcome { proof, report })
}

/// Sends a refusal. The connection is not used any more, so it does not matter whether the frame arrives.
pub fn refuse(channel: &mut Channel, refusal: &Refusal) {
    let _ = channel.send(FrameKind::Error, refusal);
}
