import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const streamErrors = defineErrors({
  'streams-node-away': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning:
      'The node holds no stream open to this curator: it is switched off, cut off, or only just starting.',
    fix: 'See its health in `cluster node ls`; the machine itself has its log: `journalctl -u bootstrapper`.',
  },
  'streams-node-gone': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The node went away while it was being asked.',
    fix: 'See its health in `cluster node ls`, then ask again.',
  },
  'streams-node-silent': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The node holds its stream open, but did not answer in time.',
    fix: 'It is probably overloaded; look at it with `cluster node show`, then ask again.',
  },
  'streams-node-refused': {
    fault: 'peer',
    exit: 'precondition',
    retryable: false,
    meaning: 'The node itself said no; its own code and sentence are in the message.',
    fix: 'The message says what the node lacks.',
  },
  'streams-busy': {
    fault: 'system',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The node is already being asked as much at once as is allowed.',
    fix: 'End another `cluster node logs --follow`, then ask again.',
  },
  'streams-request-invalid': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'The request cannot mean anything; no node was asked.',
    fix: 'The message names the field and what would be right.',
  },
  'streams-protocol': {
    fault: 'peer',
    exit: 'refused',
    retryable: true,
    meaning: 'A node said something on its stream that it may not say; the stream was ended.',
    fix: 'Compare the version of its agent with that of the cluster in `cluster node ls --wide`.',
  },
});

export type StreamErrorCode = keyof typeof streamErrors;

export class StreamError extends errorClass(streamErrors) {}
