import type { MessageInitShape } from '@bufbuild/protobuf';
import { Mailbox } from '../../internal/event/index.ts';
import type {
  OpenSessionRequest,
  OpenSessionResponseSchema,
  TaskData,
  TaskDone,
  TaskSchema,
} from '../curatorproto/gen/streams_pb.js';
import { reportedError } from '../../internal/rpc/index.ts';
import { StreamError } from './errors.ts';

/**
 * Flow control: how many data messages of one task may be in transit (in the node, on the network and in this
 * process).
 */
export const CREDIT = 16;
/**
 * Credit is returned to the node for several messages at once, so that not every log line costs a message in
 * the other direction.
 */
const CREDIT_BATCH = 4;
/** Maximum number of tasks of one node at the same time; most are followed logs. */
const MAX_TASKS = 16;
const MAX_DATA_BYTES = 64 * 1024;
/** A node that does not read this many messages is treated as disconnected. */
const MAX_OUTGOING = 4 * MAX_TASKS * (CREDIT / CREDIT_BATCH);

/** A task for a node, in the form of the contract. */
export type TaskKind = NonNullable<MessageInitShape<typeof TaskSchema>['what']>;
type Outgoing = MessageInitShape<typeof OpenSessionResponseSchema>;

/** One part of the result of a task. Parts arrive in order. */
export interface TaskPart {
  readonly data: Uint8Array;
  readonly dropped: bigint;
}

/** The session of one node with this curator: tasks go to the node, results come back to the caller of each task. */
export class NodeSession {
  readonly nodeId: string;
  readonly name: string;
  readonly #outgoing = new Mailbox<Outgoing>(MAX_OUTGOING);
  readonly #tasks = new Map<bigint, Mailbox<TaskPart>>();
  #last = 0n;

  constructor(node: { readonly nodeId: string; readonly name: string }) {
    this.nodeId = node.nodeId;
    this.name = node.name;
    this.#send({ message: { case: 'idle', value: {} } });
  }

  /** The messages to the node; ends with the session. */
  outgoing(signal: AbortSignal): AsyncIterable<Outgoing> {
    return this.#outgoing.read(signal);
  }

  /**
   * Sends a task and yields its results. Leaving the loop cancels the task.
   * @throws StreamError
   */
  async *runTask(what: TaskKind, signal: AbortSignal): AsyncGenerator<TaskPart> {
    if (this.#tasks.size >= MAX_TASKS)
      throw new StreamError('streams-busy', `calling ${this.name}: it already runs ${MAX_TASKS} tasks`);
    const task = ++this.#last;
    const answers = new Mailbox<TaskPart>(CREDIT);
    this.#tasks.set(task, answers);
    let taken = 0;
    try {
      this.#send({ message: { case: 'task', value: { task, credit: CREDIT, what } } });
      for await (const part of answers.read(signal)) {
        yield part;
        if (++taken % CREDIT_BATCH === 0)
          this.#send({ message: { case: 'credit', value: { task, messages: CREDIT_BATCH } } });
      }
    } finally {
      if (this.#tasks.delete(task)) this.#send({ message: { case: 'cancel', value: { task } } });
    }
  }

  /** Handles a message of the node. @throws StreamError `streams-protocol` */
  receive({ message }: OpenSessionRequest): void {
    switch (message.case) {
      case 'hello':
        return;
      case 'data':
        return this.#takeData(message.value);
      case 'done':
        return this.#takeDone(message.value);
      case undefined:
        throw this.#broken('an empty message');
    }
  }

  /** Ends the session and all of its tasks, because the node disconnected or opened another session. */
  end(why: string): void {
    const error = new StreamError('streams-node-gone', `calling ${this.name}: ${why}`);
    for (const answers of this.#tasks.values()) answers.close({ error });
    this.#tasks.clear();
    this.#outgoing.close({ error });
  }

  #takeData({ task, data, dropped }: TaskData): void {
    if (data.length > MAX_DATA_BYTES)
      throw this.#broken(`${data.length} bytes in one message, at most ${MAX_DATA_BYTES}`);
    if (task > this.#last) throw this.#broken(`data for unknown task ${task}`);
    const answers = this.#tasks.get(task);
    // No error if the task is unknown: it may have been canceled meanwhile.
    if (answers !== undefined && !answers.push({ data, dropped })) throw this.#broken('data without credit');
  }

  #takeDone({ task, error }: TaskDone): void {
    const answers = this.#tasks.get(task);
    if (answers === undefined) return;
    this.#tasks.delete(task);
    if (error === undefined) return answers.close();
    const [code, message] = [error.code.slice(0, 100), error.message.slice(0, 1000)];
    const cause = reportedError(code, message);
    const known = cause === undefined ? {} : { cause, fix: `Run \`cluster help errors ${code}\`.` };
    const text = `calling ${this.name}: ${code} ${message}`.trim();
    answers.close({ error: new StreamError('streams-node-refused', text, known) });
  }

  #send(message: Outgoing): void {
    if (!this.#outgoing.push(message)) this.end('it does not read its messages');
  }

  #broken(why: string): StreamError {
    return new StreamError('streams-protocol', `session of ${this.name}: ${why}`);
  }
}

/** The open sessions by node. A newer session of a node replaces the older one. */
export class NodeSessions {
  readonly #open = new Map<string, NodeSession>();
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Opens a session for a node. */
  open(node: { readonly nodeId: string; readonly name: string }): NodeSession {
    const session = new NodeSession(node);
    this.#open.get(node.nodeId)?.end('it opened another session');
    this.#open.set(node.nodeId, session);
    for (const wake of this.#waiting.get(node.nodeId) ?? []) wake();
    return session;
  }

  /** Ends a session. */
  close(session: NodeSession): void {
    session.end('its session ended');
    if (this.#open.get(session.nodeId) === session) this.#open.delete(session.nodeId);
  }

  /** The open session of a node. */
  get(nodeId: string): NodeSession | undefined {
    return this.#open.get(nodeId);
  }

  /** How many nodes have a session. */
  get count(): number {
    return this.#open.size;
  }

  /** Resolves when the node opens a session; the caller limits the wait by the signal. */
  async waitFor(nodeId: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(nodeId) ?? new Set();
    this.#waiting.set(nodeId, waiting.add(resolve));
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      signal.throwIfAborted();
      if (!this.#open.has(nodeId)) await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      waiting.delete(resolve);
      if (waiting.size === 0) this.#waiting.delete(nodeId);
    }
  }
}
