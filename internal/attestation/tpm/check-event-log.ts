import type { CheckList } from '../check-list.ts';
import { AttestationError } from '../errors.ts';
import { eventlogErrors, EventlogError, parseEventLog, verifyEventLog } from '../eventlog/index.ts';
import type { QuoteErrorCode } from './errors.ts';
import type { TpmRules } from './rules.ts';

/**
 * Replays the event log to the quoted values of `loggedPcrs`. Returns the number of events; undefined if there is no log and
 * the policy does not require one. Throws AttestationError.
 */
export function checkEventLog(
  eventLog: Uint8Array,
  pcrValues: ReadonlyMap<number, Uint8Array>,
  { rules, checks }: { readonly rules: TpmRules; readonly checks: CheckList<QuoteErrorCode> },
): number | undefined {
  if (eventLog.length === 0) {
    if (rules.eventLog === 'required') throw checks.refusal('quote-eventlog-missing');
    checks.skip('quote-eventlog-missing');
    return undefined;
  }
  const logged = new Map([...pcrValues].filter(([pcr]) => rules.loggedPcrs.includes(pcr)));
  try {
    const log = parseEventLog(eventLog, 'tpm');
    verifyEventLog(log, 'sha256', logged);
    checks.require('quote-eventlog-missing', true, {
      actual: `replays to PCRs ${[...logged.keys()].join(',')}`,
    });
    return log.events.length;
  } catch (error) {
    if (!(error instanceof EventlogError)) throw error;
    throw new AttestationError(eventlogErrors, error.code, error.message, {
      details: error.details,
      checks: checks.checks,
      check: 'eventlog-missing',
      cause: error,
    });
  }
}
