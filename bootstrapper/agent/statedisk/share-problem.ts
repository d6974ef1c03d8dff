import { findCoded, type CodedError } from '../../../internal/errors/index.ts';
import { RemoteError } from '../../../internal/rpc/index.ts';
import { DiskError, isWrongShareError } from '../../disk/index.ts';
import { JoinClientError } from '../../joinclient/index.ts';

/**
 * A wrong share says more than a refusal, a refusal more than an answer that was not taken, and that more than an endpoint that does not
 * answer. Of the last kind, an endpoint that has answered says most.
 */
export function shareProblemOf(failures: ReadonlyMap<string, unknown>, cause: unknown): DiskError {
  for (const [endpoint, error] of failures)
    if (isWrongShareError(error))
      return new DiskError(error.code, `asking ${endpoint} for the share of the state disk`, {
        cause: error,
      });
  for (const [endpoint, error] of failures) {
    const refusal = refusalIn(error);
    if (refusal !== undefined)
      return new DiskError('disk-share-refused', `asking ${endpoint} for the share of the state disk`, {
        cause: error,
        details: { code: refusal.code },
      });
  }
  for (const [endpoint, error] of failures)
    if (error instanceof JoinClientError && error.code === 'joinclient-share-invalid')
      return new DiskError('disk-share-invalid', `asking ${endpoint} for the share of the state disk`, {
        cause: error,
      });
  const what = 'asking the control planes for the share of the state disk';
  const told = [...failures.values()].find((error) => findCoded(error)?.exit !== 'unreachable') ?? cause;
  return new DiskError('disk-share-awaited', what, {
    cause: told,
    details: { code: findCoded(told)?.code ?? 'none' },
  });
}

/** The refusal of a signer or a join service; undefined for an error that passes by itself, and for one of the connection. */
function refusalIn(error: unknown): CodedError | undefined {
  if (error instanceof RemoteError) return isPassing(error) ? undefined : error;
  const coded = findCoded(error);
  // Software that the configuration does not accept is refused before the machine can ask.
  return coded?.code === 'atls-alert-evidence-rejected' ? coded : undefined;
}

/**
 * A full queue, or something that this control plane lacks: its keys while it starts, or the secret for disk shares. Another one may still
 * answer, so that the machine does not ask more slowly.
 */
function isPassing({ exit }: RemoteError): boolean {
  return exit === 'unreachable' || exit === 'precondition';
}
