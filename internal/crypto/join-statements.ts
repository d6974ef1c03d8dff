const SESSION_BYTES = 64;

/**
 * The statement that a joining machine signs with its own key. It proves, for one session of attested TLS, that the
 * machine holds that key.
 */
export function machineKeyStatement(session: Uint8Array): Uint8Array {
  return statementInSession('cluster/join/key/v1\0', session);
}

/**
 * The statement that the join service signs with the key of its node. It proves that the TLS session ends at a node of
 * the cluster.
 */
export function joinServerStatement(session: Uint8Array): Uint8Array {
  return statementInSession('cluster/join/server/v1\0', session);
}

/** Throws RangeError unless `session` is the 64-byte value of an attested TLS session (`PeerSession.session`). */
export function checkSession(session: Uint8Array): void {
  if (session.length !== SESSION_BYTES)
    throw new RangeError(`a session has ${SESSION_BYTES} bytes, not ${session.length}`);
}

function statementInSession(label: string, session: Uint8Array): Uint8Array {
  checkSession(session);
  return Buffer.concat([Buffer.from(label, 'utf8'), session]);
}
