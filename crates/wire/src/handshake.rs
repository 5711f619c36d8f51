//! The first three frames of a connection: challenge, hello, welcome.

use crate::auth::{Token, nonce};
use crate::channel::{Channel, ChannelError};
use crate::frame::Kind;
use crate::message::{Challenge, Code, Hello, Refusal, Welcome};
use crate::recovery::Report;

/// The client's half: answers the challenge and checks the server's proof. `hello`'s nonce and proof are filled in.
pub fn greet(
    channel: &mut Channel,
    token: &Token,
    mut hello: Hello,
) -> Result<Report, ChannelError> {
    let challenge: Challenge = channel.expect(Kind::Challenge)?;
    hello.nonce = nonce();
    hello.proof = token.client_proof(&challenge.nonce, &hello.nonce);
    channel.send(Kind::Hello, &hello)?;
    // The report may be long; a server that is not ours can waste this process's time, not its memory.
    channel.trust();
    let welcome: Welcome = channel.expect(Kind::Welcome)?;
    if !token.check_server(&challenge.nonce, &hello.nonce, &welcome.proof) {
        let text = "the server does not know the job token".to_owned();
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

/// The server's half, first part: challenges the client and checks its proof. The caller decides whether to
/// admit it and answers with [`welcome`] or a refusal.
pub fn challenge(channel: &mut Channel, token: &Token) -> Result<(String, Hello), ChannelError> {
    let own = nonce();
    channel.send(Kind::Challenge, &Challenge { nonce: own.clone() })?;
    let hello: Hello = channel.expect(Kind::Hello)?;
    if !token.check_client(&own, &hello.nonce, &hello.proof) {
        let text = "wrong job token".to_owned();
        let refusal = Refusal {
            code: Code::Denied,
            text,
        };
        refuse(channel, &refusal);
        return Err(ChannelError::Refused {
            peer: channel.peer().to_owned(),
            refusal,
        });
    }
    channel.trust();
    Ok((own, hello))
}

/// The server's half, second part.
pub fn welcome(
    channel: &mut Channel,
    token: &Token,
    own_nonce: &str,
    hello: &Hello,
    report: Report,
) -> Result<(), ChannelError> {
    let proof = token.server_proof(own_nonce, &hello.nonce);
    channel.send(Kind::Welcome, &Welcome { proof, report })
}

/// Says why not. The connection is of no more use; whether the words arrive does not matter.
pub fn refuse(channel: &mut Channel, refusal: &Refusal) {
    let _ = channel.send(Kind::Error, refusal);
}
