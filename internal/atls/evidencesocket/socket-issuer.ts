import { connect } from 'node:net';
import type { SessionIssuer, Variant } from '../../attestation/index.ts';
import { isAbort } from '../../errors/index.ts';
import { readUntilEnd } from './read-until-end.ts';
import { EvidenceSocketError } from './errors.ts';
import { encodeRequest, MAX_RESPONSE_BYTES, parseResponse } from './messages.ts';

/** Evidence of this machine for sessions of this process, made by the agent. A connection for each question. */
export class SocketIssuer implements SessionIssuer {
  readonly variant: Variant;
  readonly #path: string;

  /** `variant`: the kind that the agent of this machine shows. Nothing is opened before it is asked. */
  constructor(options: { readonly path: string; readonly variant: Variant }) {
    this.variant = options.variant;
    this.#path = options.path;
  }

  /** Rejects with a `EvidenceSocketError` or the signal's reason; the signal is also the only time limit. */
  async issueForSession(statement: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    const question = encodeRequest(this.variant, statement);
    signal.throwIfAborted();
    const socket = connect({ path: this.#path });
    socket.on('error', () => undefined); // `collect` has it; one that comes later says nothing new
    try {
      socket.end(question);
      return parseResponse(await readUntilEnd(socket, MAX_RESPONSE_BYTES, signal));
    } catch (error) {
      if (error instanceof EvidenceSocketError || isAbort(error, signal)) throw error;
      throw new EvidenceSocketError(
        'evidence-socket-unavailable',
        `asking the agent for evidence at ${this.#path}`,
        { cause: error },
      );
    } finally {
      socket.destroy();
    }
  }
}
