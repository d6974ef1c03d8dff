import { CodedError, isAbort } from '../../internal/errors/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { UnitError } from './errors.ts';
import { JOINSERVICE_UNIT } from './joinservice-unit.ts';

const POLL_MS = 200;
/** Asking systemd starts a process: every five seconds. */
const POLLS_PER_LOOK = 25;
/** An emulated machine that also imported container images needed more than 30 s. */
const READY_MS = 180_000;
/** From then on, the service is regarded as one that cannot start, not as a slow one. */
const MAX_RESTARTS = 5;

/** One wait for the curator of this node. */
export interface CuratorWait {
  readonly endpoint: string;
  /** Calls the curator; resolves once it has answered. */
  readonly probe: () => Promise<unknown>;
  /** Receives what the wait waits for, and the last error. */
  readonly say?: ((text: string, lastError?: unknown) => void) | undefined;
  readonly signal: AbortSignal;
}

/**
 * Resolves once the curator has answered. A service that does not stay up ends the wait early.
 * @throws UnitError `units-curator-not-ready`: after 180 s, or after 5 restarts of the service. The message of the
 * latter has the end of its log.
 */
export async function waitForCurator(
  { units, clock }: Pick<SystemPorts, 'units' | 'clock'>,
  { endpoint, probe, say, signal }: CuratorWait,
): Promise<void> {
  const what = `waiting for the curator at ${endpoint}`;
  const endMs = clock.monotonicMs() + READY_MS;
  const before = (await units.status(JOINSERVICE_UNIT, signal)).restarts;
  for (let polls = 1; ; polls++) {
    try {
      await probe();
      return;
    } catch (error) {
      if (isAbort(error, signal) || !(error instanceof CodedError && error.retryable)) throw error;
      say?.(what, error);
      const looks = polls % POLLS_PER_LOOK === 0;
      const restarts = looks ? (await units.status(JOINSERVICE_UNIT, signal)).restarts - before : 0;
      if (restarts >= MAX_RESTARTS) {
        const log = (await units.recentLog(JOINSERVICE_UNIT, 5, signal)).join(' | ');
        const message = `${what}: the join service failed ${restarts} times: ${log}`;
        throw new UnitError('units-curator-not-ready', message, { cause: error });
      }
      if (clock.monotonicMs() > endMs) throw new UnitError('units-curator-not-ready', what, { cause: error });
      await clock.sleep(POLL_MS, signal);
    }
  }
}
