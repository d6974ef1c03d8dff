import { TimeoutError, withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import type { AdmissionRequest, Hello } from '../../joinproto/gen/join_pb.js';
import { JoinError } from '../errors.ts';

/** For a machine to say the next thing; its TPM may take a second. */
const TURN_MS = 60_000;

/** What a machine says, one message at its turn. */
export class MachineMessages {
  readonly #messages: AsyncIterator<AdmissionRequest, unknown>;
  readonly #clock: Clock;

  constructor(requests: AsyncIterable<AdmissionRequest>, clock: Clock) {
    this.#messages = requests[Symbol.asyncIterator]();
    this.#clock = clock;
  }

  async hello(signal: AbortSignal): Promise<Hello> {
    const said = await this.#next('hello', signal);
    if (said.case === 'hello') return said.value;
    throw outOfTurn('hello', said.case);
  }

  async answer(signal: AbortSignal): Promise<Uint8Array> {
    const said = await this.#next('the answer to a challenge', signal);
    if (said.case === 'challengeAnswer') return said.value.answer;
    throw outOfTurn('the answer to a challenge', said.case);
  }

  async #next(due: string, signal: AbortSignal): Promise<AdmissionRequest['message']> {
    const limit = { what: `waiting for ${due}`, ms: TURN_MS, clock: this.#clock, signal };
    try {
      const next = await withTimeout(limit, () => this.#messages.next());
      if (next.done !== true) return next.value.message;
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      throw new JoinError('join-silent', limit.what, { cause: error });
    }
    // No verdict on anybody: nothing of it is written down.
    throw new JoinError('join-hung-up', limit.what);
  }
}

function outOfTurn(due: string, got: string | undefined): JoinError {
  return new JoinError('join-message-malformed', `waiting for ${due}: got ${got ?? 'an empty message'}`);
}
