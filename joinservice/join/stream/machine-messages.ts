import { TimeoutError, withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import type { AdmissionRequest, Hello } from '../../joinproto/gen/join_pb.js';
import { JoinError } from '../errors.ts';

/** Within this time a machine has to send its next message; its TPM may take a second. */
const MESSAGE_MS = 60_000;

/** The messages of a machine in the order of the protocol. */
export class MachineMessages {
  readonly #messages: AsyncIterator<AdmissionRequest, unknown>;
  readonly #clock: Clock;

  constructor(requests: AsyncIterable<AdmissionRequest>, clock: Clock) {
    this.#messages = requests[Symbol.asyncIterator]();
    this.#clock = clock;
  }

  /** The first message. @throws JoinError */
  async hello(signal: AbortSignal): Promise<Hello> {
    const message = await this.#next('hello', signal);
    if (message.case === 'hello') return message.value;
    throw outOfOrder('hello', message.case);
  }

  /** The answer to the challenge of its TPM. @throws JoinError */
  async answer(signal: AbortSignal): Promise<Uint8Array> {
    const message = await this.#next('the answer to a challenge', signal);
    if (message.case === 'challengeAnswer') return message.value.answer;
    throw outOfOrder('the answer to a challenge', message.case);
  }

  async #next(expected: string, signal: AbortSignal): Promise<AdmissionRequest['message']> {
    const limit = { what: `waiting for ${expected}`, ms: MESSAGE_MS, clock: this.#clock, signal };
    try {
      const next = await withTimeout(limit, () => this.#messages.next());
      if (next.done !== true) return next.value.message;
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      throw new JoinError('join-silent', limit.what, { cause: error });
    }
    // Not a refusal: nothing is written to the audit log.
    throw new JoinError('join-hung-up', limit.what);
  }
}

function outOfOrder(expected: string, got: string | undefined): JoinError {
  return new JoinError('join-message-malformed', `waiting for ${expected}: got ${got ?? 'an empty message'}`);
}
