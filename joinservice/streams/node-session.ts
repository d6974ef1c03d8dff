import type { MessageInitShape } from '@bufbuild/protobuf';
import { Mailbox } from '../../internal/event/index.ts';
import type {
  OpenSessionRequest,
  OpenSessionResponseSchema,
  TaskData,
  TaskDone,
  TaskSchema,
} from '../curatorproto/gen/streams_pb.js';
import { StreamError } from './errors.ts';

/** Messages of data under way for one task: with the node, on the wire and here. */
export const CREDIT = 16;
/** Credit goes back in parcels, so that a line costs no message in the other direction. */
const PARCEL = 4;
/** Logs that are followed, mostly; a node is not to be kept busy by who looks at it. */
const MAX_TASKS = 16;
const MAX_DATA_BYTES = 64 * 1024;
/** A node that does not take its orders is as good as gone. */
const MAX_ORDERS = 4 * MAX_TASKS * (CREDIT / PARCEL);

export type TaskKind = NonNullable<MessageInitShape<typeof TaskSchema>['what']>;
type Order = MessageInitShape<typeof OpenSessionResponseSchema>;

/** What a node answered: a part, in order. */
export interface TaskPart {
  readonly data: Uint8Array;
  readonly dropped: bigint;
}

/** One node's stream to this curator: tasks go out, answers come in, each to who asked. */
export class NodeSession {
  readonly nodeId: string;
  readonly name: string;
  readonly #orders = new Mailbox<Order>(MAX_ORDERS);
  readonly #tasks = new Map<bigint, Mailbox<TaskPart>>();
  #last = 0n;

  constructor(node: { readonly nodeId: string; readonly name: string }) {
    this.nodeId = node.nodeId;
    this.name = node.name;
    this.#order({ message: { case: 'idle', value: {} } });
  }

  /** What the node is told. Ends when it has left. */
  outgoing(signal: AbortSignal): AsyncIterable<Order> {
    return this.#orders.read(signal);
  }

  /**
   * Gives a task and yields what comes of it. Leaving the loop tells the node to stop.
   * @throws StreamError
   */
  async *runTask(what: TaskKind, signal: AbortSignal): AsyncGenerator<TaskPart> {
    if (this.#tasks.size >= MAX_TASKS)
      throw new StreamError('streams-busy', `asking ${this.name}: ${MAX_TASKS} others do`);
    const task = ++this.#last;
    const answers = new Mailbox<TaskPart>(CREDIT);
    this.#tasks.set(task, answers);
    let taken = 0;
    try {
      this.#order({ message: { case: 'task', value: { task, credit: CREDIT, what } } });
      for await (const part of answers.read(signal)) {
        yield part;
        if (++taken % PARCEL === 0)
          this.#order({ message: { case: 'credit', value: { task, messages: PARCEL } } });
      }
    } finally {
      if (this.#tasks.delete(task)) this.#order({ message: { case: 'cancel', value: { task } } });
    }
  }

  /** Something that the node said. @throws StreamError `streams-protocol` */
  receive({ message }: OpenSessionRequest): void {
    switch (message.case) {
      case 'hello':
        return;
      case 'data':
        return this.#takeData(message.value);
      case 'done':
        return this.#takeDone(message.value);
      case undefined:
        throw this.#broken('a message of no kind');
    }
  }

  /** The node has left, or another stream of it has come. Whoever waits for it learns that. */
  end(why: string): void {
    const error = new StreamError('streams-node-gone', `asking ${this.name}: ${why}`);
    for (const answers of this.#tasks.values()) answers.close({ error });
    this.#tasks.clear();
    this.#orders.close({ error });
  }

  #takeData({ task, data, dropped }: TaskData): void {
    if (data.length > MAX_DATA_BYTES) throw this.#broken(`${data.length} bytes at once`);
    if (task > this.#last) throw this.#broken(`data for task ${task}, which nobody gave`);
    const answers = this.#tasks.get(task);
    // A task that was cancelled meanwhile is no fault.
    if (answers !== undefined && !answers.push({ data, dropped })) throw this.#broken('data without credit');
  }

  #takeDone({ task, error }: TaskDone): void {
    const answers = this.#tasks.get(task);
    if (answers === undefined) return;
    this.#tasks.delete(task);
    if (error === undefined) return answers.close();
    const said = `${error.code.slice(0, 100)} ${error.message.slice(0, 1000)}`.trim();
    answers.close({ error: new StreamError('streams-node-refused', `asking ${this.name}: ${said}`) });
  }

  #order(order: Order): void {
    if (!this.#orders.push(order)) this.end('it does not take what it is told');
  }

  #broken(why: string): StreamError {
    return new StreamError('streams-protocol', `listening to ${this.name}: ${why}`);
  }
}

/** Which nodes attend here. One stream for each node: a newer one takes the place of the older. */
export class NodeSessions {
  readonly #present = new Map<string, NodeSession>();
  readonly #waiting = new Map<string, Set<() => void>>();

  open(node: { readonly nodeId: string; readonly name: string }): NodeSession {
    const attendance = new NodeSession(node);
    this.#present.get(node.nodeId)?.end('it has come back on another stream');
    this.#present.set(node.nodeId, attendance);
    for (const wake of this.#waiting.get(node.nodeId) ?? []) wake();
    return attendance;
  }

  close(attendance: NodeSession): void {
    attendance.end('its stream has ended');
    if (this.#present.get(attendance.nodeId) === attendance) this.#present.delete(attendance.nodeId);
  }

  get(nodeId: string): NodeSession | undefined {
    return this.#present.get(nodeId);
  }

  get count(): number {
    return this.#present.size;
  }

  /** Resolves when the node comes; the caller bounds the wait by the signal. */
  async waitFor(nodeId: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(nodeId) ?? new Set();
    this.#waiting.set(nodeId, waiting.add(resolve));
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      signal.throwIfAborted();
      if (!this.#present.has(nodeId)) await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      waiting.delete(resolve);
      if (waiting.size === 0) this.#waiting.delete(nodeId);
    }
  }
}
