import { connect } from 'node:net';
import type { SessionIssuer, Variant } from '../../attestation/index.ts';
import { isAbort } from '../../errors/index.ts';
import { readUntilEnd } from './read-until-end.ts';
import { EvidenceSocketError } from './errors.ts';
import { encodeRequest, MAX_RESPONSE_BYTES, parseResponse } from './messages.ts';

/**
 * Requests this machine's evidence for a session of this process from the agent. Each request uses a new connection.
 */
export class SocketIssuer implements SessionIssuer {
  readonly variant: Variant;
  readonly #path: string;

  /** `variant` must be the one that the agent of this machine shows. Opens no connection. */
  constructor(options: { readonly path: string; readonly variant: Variant }) {
    this.variant = options.variant;
    this.#path = options.path;
  }

  /** Rejects with EvidenceSocketError or the signal's reason. The signal is the only time limit. */
  async issueForSession(statement: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    const request = encodeRequest(this.variant, statement);
    signal.throwIfAborted();
    const socket = connect({ path: this.#path });
    socket.on('error', () => undefined); // `readUntilEnd()` reports the first error
    try {
      socket.end(request);
      return parseResponse(await readUntilEnd(socket, MAX_RESPONSE_BYTES, signal));
    } catch (error) {
      if (error instanceof EvidenceSocketError || isAbort(error, signal)) throw error;
      throw new EvidenceSocketError(
        'evidence-socket-unavailable',
        `requesting evidence from the agent at ${this.#path}`,
        { cause: error },
      );
    } finally {
      socket.destroy();
    }
  }
}
