import type { MessageInitShape } from '@bufbuild/protobuf';
import { childSignal, type ChildSignal } from '../../internal/cleanup/index.ts';
import { describeError, findCoded } from '../../internal/errors/index.ts';
import { Mailbox } from '../../internal/event/index.ts';
import type { Client } from '../../internal/rpc/index.ts';
import type {
  OpenSessionRequestSchema,
  NodeStreams,
  Task,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { runTask, type TaskPorts } from './tasks.ts';

/** At most 16 tasks with 16 messages each, and one final message for each task. */
const MAX_MESSAGES = 16 * 17 + 1;
/** Limit on the credit of one task, because queued chunks use the memory of this agent. */
const MAX_CREDIT = 64;
const MAX_TASKS = 16;

type Message = MessageInitShape<typeof OpenSessionRequestSchema>;

/** Options of a node session. */
export interface NodeSessionOptions {
  readonly agentVersion: string;
  readonly ports: TaskPorts;
  /** Called when the curator has accepted this node. */
  readonly onAccepted: () => void;
}

/**
 * Serves one stream to one curator until the stream ends or the signal fires. The credit of the curator
 * limits how many results are sent.
 */
export async function runNodeSession(
  client: Pick<Client<typeof NodeStreams>, 'openSession'>,
  { agentVersion, ports, onAccepted }: NodeSessionOptions,
  signal: AbortSignal,
): Promise<void> {
  using stream = childSignal(signal);
  const messages = new Mailbox<Message>(MAX_MESSAGES);
  messages.push({ message: { case: 'hello', value: { agentVersion } } });
  const running = new Map<bigint, RunningTask>();
  try {
    const orders = client.openSession(messages.read(stream.signal), { signal: stream.signal });
    for await (const { message } of orders) {
      switch (message.case) {
        case 'idle':
          onAccepted();
          break;
        case 'task':
          begin(message.value, { messages, running, ports, signal: stream.signal });
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
    stream.abort(new Error('the stream to the curator has ended'));
    messages.close();
    await Promise.allSettled([...running.values()].map(({ ended }) => ended));
  }
}

interface Session {
  readonly messages: Mailbox<Message>;
  readonly running: Map<bigint, RunningTask>;
  readonly ports: TaskPorts;
  readonly signal: AbortSignal;
}

function begin(task: Task, session: Session): void {
  if (session.running.size >= MAX_TASKS || session.running.has(task.task)) return;
  const running = new RunningTask(task, session);
  session.running.set(task.task, running);
  void running.ended.finally(() => session.running.delete(task.task));
}

/** A running task. */
class RunningTask {
  readonly ended: Promise<void>;
  readonly #stop: ChildSignal;
  #credit: number;
  #wake = Promise.withResolvers<void>();

  constructor(task: Task, session: Session) {
    this.#stop = childSignal(session.signal);
    this.#credit = Math.min(task.credit, MAX_CREDIT);
    this.ended = this.#run(task, session);
  }

  credit(count: number): void {
    this.#credit = Math.min(this.#credit + count, MAX_CREDIT);
    this.#wake.resolve();
  }

  cancel(): void {
    this.#stop.abort(new Error('task canceled'));
    this.#wake.resolve();
  }

  /** Never rejects, because errors are sent to the caller. */
  async #run(task: Task, { messages, ports }: Session): Promise<void> {
    const { signal } = this.#stop;
    const done = (error: { readonly code: string; readonly message: string } | undefined): void => {
      const value = error === undefined ? { task: task.task } : { task: task.task, error };
      messages.push({ message: { case: 'done', value } });
    };
    try {
      for await (const part of runTask(task, ports, signal)) {
        await this.#waitForCredit(signal);
        this.#credit--;
        messages.push({ message: { case: 'data', value: { task: task.task, ...part } } });
      }
      done(undefined);
    } catch (error) {
      if (!signal.aborted)
        done({ code: findCoded(error)?.code ?? 'internal', message: describeError(error) });
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
