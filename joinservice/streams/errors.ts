import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** The errors of this directory, for `cluster explain CODE`. */
export const streamErrors = defineErrors({
  'streams-node-away': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The node has no session with this curator: it is down, disconnected or still starting.',
    fix: 'Check its health with `cluster node ls`. On the machine, run `journalctl -u bootstrapper`.',
  },
  'streams-node-gone': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The node disconnected during the call.',
    fix: 'Check its health with `cluster node ls`, then repeat the call.',
  },
  'streams-node-silent': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The node is connected, but did not answer in time.',
    fix: 'Check the load of the node with `cluster node show NODE`, then repeat the call.',
  },
  'streams-node-refused': {
    fault: 'peer',
    exit: 'precondition',
    meaning: 'The node itself refused the task. The error ends with the code and message of the node.',
    fix: 'Run `cluster explain CODE` with that code.',
  },
  'streams-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The node already runs as many tasks as allowed.',
    fix: 'End another `cluster node logs --follow`, then repeat the call.',
  },
  'streams-request-invalid': {
    fault: 'operator',
    exit: 'usage',
    meaning: 'A field of the request is invalid. No node was asked.',
    fix: 'Correct the field that the error names.',
  },
  'streams-protocol': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'A node sent a message that the protocol does not allow. Its session was closed.',
    fix: 'Compare the version of its agent with that of the cluster (`cluster node ls --wide`).',
  },
});

/** The codes of `StreamError`. */
export type StreamErrorCode = keyof typeof streamErrors;

/** An error of this directory, with one of its codes. */
export class StreamError extends errorClass(streamErrors) {}
