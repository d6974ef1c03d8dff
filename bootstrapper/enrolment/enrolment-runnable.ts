import { findCoded } from '../../internal/errors/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import type { Enrolment } from './enrolment.ts';
import { untilFileChanges } from './until-file-changes.ts';

/** Ports (injected dependencies) of `enrolmentRunnable()`. */
interface EnrolmentRunnablePorts extends Pick<SystemPorts, 'files' | 'clock' | 'log'> {
  readonly enrolment: Pick<Enrolment<unknown>, 'run' | 'finished'>;
  /** Ends the agent; systemd starts it again. */
  readonly end: (reason: unknown) => void;
}

/**
 * Runs the enrolment. After a retryable failure the agent ends, and systemd starts it again. After a final
 * failure the agent keeps running to report the reason, until the file that caused the failure has changed.
 */
export function enrolmentRunnable(ports: EnrolmentRunnablePorts): Runnable {
  const { enrolment, end } = ports;
  return async (scope) => {
    scope.healthy();
    await enrolment.run(scope.signal);
    try {
      await enrolment.finished(scope.signal);
    } catch (error) {
      scope.signal.throwIfAborted();
      const coded = findCoded(error);
      if (coded?.retryable === false) {
        scope.waiting(`an operator: ${coded.message}`);
        await untilFileChanges(ports, coded, scope.signal);
      }
      end(error);
      scope.signal.throwIfAborted();
    }
    scope.done();
  };
}
