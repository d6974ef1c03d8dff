import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** The errors of this directory, for `cluster help errors CODE`. */
export const streamErrors = defineErrors({
  'streams-node-away': retryable.peer.unreachable(
    'The node has no session with this curator: it is down, disconnected or still starting.',
    'Check the health of the node with `cluster node ls`. On the machine, run `journalctl -u bootstrapper`.',
  ),
  'streams-node-gone': retryable.peer.unreachable(
    'The node disconnected during the call.',
    'Check the health of the node with `cluster node ls`, then repeat the call.',
  ),
  'streams-node-silent': retryable.peer.unreachable(
    'The node is connected, but did not answer in time.',
    'Check the load of the node with `cluster node show NODE`, then repeat the call.',
  ),
  'streams-node-refused': fault.peer.precondition(
    'The node itself refused the task. The error ends with the code and message of the node.',
    'Run `cluster help errors CODE` with the code of the node.',
  ),
  'streams-busy': retryable.system.unreachable(
    'The node already runs as many tasks as allowed.',
    'End another `cluster node logs --follow`, then repeat the call.',
  ),
  'streams-request-invalid': fault.operator.usage(
    'A field of the request is invalid. No node was called.',
    'Correct the field that the error names. If the CLI sent it, compare the versions of the CLI and the cluster (`cluster version`).',
  ),
  'streams-protocol': retryable.peer.refused(
    'A node sent a message that the protocol does not allow. Its session was closed.',
    'Compare the version of the node’s agent with the version of the cluster (`cluster node ls --wide`).',
  ),
});

/** An error of this directory, with one of its codes. */
export class StreamError extends errorClass(streamErrors) {}
