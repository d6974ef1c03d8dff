import { findCoded, type CodedError } from '../../../internal/errors/index.ts';
import { RemoteError } from '../../../internal/rpc/index.ts';
import { DiskError, isLastingRefusal, isWrongShareError } from '../../disk/index.ts';
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
  const refusals = [...failures.values()].filter((error) => isRefusal(error));
  const refused = refusals.find((error) => isLastingRefusal(error)) ?? refusals[0];
  if (refused !== undefined) return refused;
  for (const [endpoint, error] of failures) {
    // Software that the configuration does not accept is refused before the machine can ask, and before the cluster has proved itself.
    const coded = findCoded(error);
    if (coded?.code === 'atls-alert-evidence-rejected') return refusedBy(endpoint, coded, false);
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

/**
 * The refusal of a signer or a join service of a cluster that has proved itself in this session; any other error unchanged. Before the proof,
 * anybody between the machine and the cluster could refuse.
 */
export function provedRefusalOf(endpoint: string, error: unknown): unknown {
  return error instanceof RemoteError && !isPassing(error)
    ? refusedBy(endpoint, error, isLastingCode(error))
    : error;
}

function isRefusal(error: unknown): error is DiskError {
  return error instanceof DiskError && error.code === 'disk-share-refused';
}

/** Not a clock, a full database, or too many requests. */
function isLastingCode({ exit, retryable }: RemoteError): boolean {
  return exit === 'refused' && !retryable;
}

function refusedBy(endpoint: string, cause: CodedError, isLasting: boolean): DiskError {
  return new DiskError('disk-share-refused', `asking ${endpoint} for the share of the state disk`, {
    cause,
    details: { code: cause.code, isLasting },
  });
}

/**
 * A full queue, or something that this control plane lacks: its keys while it starts, or the secret for disk shares. Another one may still
 * answer, so that the machine does not ask more slowly.
 */
function isPassing({ exit }: RemoteError): boolean {
  return exit === 'unreachable' || exit === 'precondition';
}
