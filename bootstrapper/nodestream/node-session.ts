import type { MessageInitShape } from '@bufbuild/protobuf';
import { childSignal, type ChildSignal } from '../../internal/cleanup/index.ts';
import { CodedError, describeError, findCoded } from '../../internal/errors/index.ts';
import { Mailbox } from '../../internal/event/index.ts';
import type { Client } from '../../internal/rpc/index.ts';
import type {
  OpenSessionRequestSchema,
  NodeStreams,
  Task,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { runTask, type TaskPorts } from './tasks.ts';

/** A curator gives at most 16 tasks with 16 messages each, and a word at the end of each. */
const MAX_SAYINGS = 16 * 17 + 1;
/** More credit than this for one task is a curator gone mad; its memory is ours. */
const MAX_CREDIT = 64;
const MAX_TASKS = 16;

type Saying = MessageInitShape<typeof OpenSessionRequestSchema>;

export interface NodeSessionOptions {
  readonly agentVersion: string;
  readonly ports: TaskPorts;
  /** The curator has taken this node in. */
  readonly onAccepted: () => void;
}

/** One stream to one curator, until it ends or the signal fires: tasks come, answers go, never more than there is credit for. */
export async function runNodeSession(
  client: Pick<Client<typeof NodeStreams>, 'openSession'>,
  { agentVersion, ports, onAccepted: onTaken }: NodeSessionOptions,
  signal: AbortSignal,
): Promise<void> {
  using life = childSignal(signal);
  const sayings = new Mailbox<Saying>(MAX_SAYINGS);
  sayings.push({ message: { case: 'hello', value: { agentVersion } } });
  const running = new Map<bigint, RunningTask>();
  try {
    const orders = client.openSession(sayings.read(life.signal), { signal: life.signal });
    for await (const { message } of orders) {
      switch (message.case) {
        case 'idle':
          onTaken();
          break;
        case 'task':
          begin(message.value, { sayings, running, ports, signal: life.signal });
          break;
        case 'credit':
          running.get(message.value.task)?.credit(message.value.messages);
          break;
        case 'cancel':
          running.get(message.value.task)?.cancel();
          break;
        case undefined:
          break;
      }
    }
  } finally {
    life.abort(new Error('the stream to the curator has ended'));
    sayings.close();
    await Promise.allSettled([...running.values()].map(({ ended }) => ended));
  }
}

interface Desk {
  readonly sayings: Mailbox<Saying>;
  readonly running: Map<bigint, RunningTask>;
  readonly ports: TaskPorts;
  readonly signal: AbortSignal;
}

function begin(task: Task, desk: Desk): void {
  if (desk.running.size >= MAX_TASKS || desk.running.has(task.task)) return;
  const running = new RunningTask(task, desk);
  desk.running.set(task.task, running);
  void running.ended.finally(() => desk.running.delete(task.task));
}

/** One task under way, in its own time. */
class RunningTask {
  readonly ended: Promise<void>;
  readonly #stop: ChildSignal;
  #credit: number;
  #wake = Promise.withResolvers<void>();

  constructor(task: Task, desk: Desk) {
    this.#stop = childSignal(desk.signal);
    this.#credit = Math.min(task.credit, MAX_CREDIT);
    this.ended = this.#run(task, desk);
  }

  credit(messages: number): void {
    this.#credit = Math.min(this.#credit + messages, MAX_CREDIT);
    this.#wake.resolve();
  }

  cancel(): void {
    this.#stop.abort(new Error('nobody wants the rest'));
    this.#wake.resolve();
  }

  /** Never rejects: what went wrong is told to who asked. */
  async #run(task: Task, { sayings, ports }: Desk): Promise<void> {
    const { signal } = this.#stop;
    const done = (error: { readonly code: string; readonly message: string } | undefined): void => {
      const value = error === undefined ? { task: task.task } : { task: task.task, error };
      sayings.push({ message: { case: 'done', value } });
    };
    try {
      for await (const part of runTask(task, ports, signal)) {
        await this.#waitForCredit(signal);
        this.#credit--;
        sayings.push({ message: { case: 'data', value: { task: task.task, ...part } } });
      }
      done(undefined);
    } catch (error) {
      if (!signal.aborted) done({ code: codeOf(error), message: describeError(error) });
    } finally {
      this.#stop[Symbol.dispose]();
    }
  }

  async #waitForCredit(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      if (this.#credit > 0) return;
      this.#wake = Promise.withResolvers();
      const onAbort = (): void => this.#wake.resolve();
      signal.addEventListener('abort', onAbort, { once: true });
      await this.#wake.promise;
      signal.removeEventListener('abort', onAbort);
    }
  }
}

function codeOf(error: unknown): string {
  const coded = findCoded(error);
  return coded instanceof CodedError ? coded.code : 'internal';
}
