import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Error codes for removal probes. */
export const removalProbeErrors = defineErrors({
  'removalprobe-is-member': {
    fault: 'operator',
    exit: 'refused',
    meaning:
      'A removal probe presents test credentials in the name of a removed node. The named node is still a member of the cluster, and no credential may be created in the name of a member.',
    fix: 'Remove the node first: `cluster node remove` runs the probe by itself.',
  },
  'removalprobe-not-control-plane': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'A removal probe needs the keys of a control-plane node; this node runs no control plane.',
    fix: 'Run `cluster node remove` again: it uses the control-plane nodes of that moment.',
  },
  'removalprobe-busy': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'This node is already running a removal probe; it runs one at a time.',
    fix: 'Run the same command again in a minute.',
  },
  'removalprobe-request-invalid': {
    fault: 'peer',
    exit: 'usage',
    meaning: 'The request for a removal probe does not name a node by its id.',
    fix: 'Compare the versions of agent and CLI; they may differ by one minor version.',
  },
});

/** Error code of a `RemovalProbeError`. */
export type RemovalProbeErrorCode = keyof typeof removalProbeErrors;

/** A removal probe that cannot run. An answer of an endpoint is a result, not an error. */
export class RemovalProbeError extends errorClass(removalProbeErrors) {}
