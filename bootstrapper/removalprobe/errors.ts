import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Error codes for removal probes. */
export const removalProbeErrors = defineErrors({
  'removalprobe-is-member': fault.operator.refused(
    'A removal probe presents test credentials in the name of a removed node. The named node is still a member of the cluster, and no credential may be created in the name of a member.',
    'Remove the node first: `cluster node remove` runs the probe by itself.',
  ),
  'removalprobe-not-control-plane': retryable.operator.precondition(
    'A removal probe needs the keys of a control-plane node; this node runs no control plane.',
    'Run `cluster node remove` again: it asks for the current control-plane nodes first.',
  ),
  'removalprobe-busy': retryable.system.partial(
    'This node is already running a removal probe. A node runs only one removal probe at a time.',
    'Run the same command again in a minute.',
  ),
  'removalprobe-request-invalid': fault.peer.usage(
    'The request for a removal probe does not name a node by its id.',
    'Compare the versions of agent and CLI; they may differ by one minor version.',
  ),
});

/** A removal probe that cannot run. An answer of an endpoint is a result, not an error. */
export class RemovalProbeError extends errorClass(removalProbeErrors) {}
