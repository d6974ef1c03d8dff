import { Machine } from '../../../initproto/gen/machine_pb.js';
import { TimeoutError, withTimeout } from '../../../internal/cleanup/index.ts';
import { formatEndpoint, hostOf, PORTS } from '../../../internal/endpoint/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import { createClient, RpcError, type Client, type RpcChannel } from '../../../internal/rpc/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';
import { readWorkspace } from '../open-workspace.ts';
import { localChannel, remoteChannel } from './machine-channel.ts';
import { exitOf, stageView, type StageView } from './stage.ts';

const CALL_MS = 30_000;
/** The agent may be restarted, or not be up yet when automation comes by. */
const AGENT_MS = 30_000;
const POLL_MS = 500;

export interface JoinOptions {
  /** Control-plane nodes; none: what the machine knows, or with `node` what the workspace knows. */
  readonly endpoints: readonly string[];
  /** Another machine, over its init port; undefined: this one. */
  readonly node: string | undefined;
  readonly fingerprint: string | undefined;
  /** Whether to stay until the machine is a running member. */
  readonly wait: boolean;
  readonly timeoutMs: number;
}

/** Says where the cluster is, and follows what becomes of it. The same again changes nothing. */
export async function runJoin(context: CommandContext, options: JoinOptions): Promise<void> {
  const { channel, endpoints } = await open(context, options);
  using _channel = channel;
  const machine = createClient(Machine, channel);
  const told = await direct(context, machine, { ...options, endpoints });
  context.host.say('join-directed', `The machine knows ${told.endpoints.join(', ') || 'its provisioning'}.`, {
    ...{ endpoints: told.endpoints, fingerprint: told.fingerprint, joinId: told.nodeId },
  });
  const limit = {
    what: 'waiting for the machine to be a running member',
    ms: options.wait ? options.timeoutMs : CALL_MS,
    clock: context.ports.clock,
    signal: context.signal,
  };
  const seen: Seen = { last: undefined, trouble: undefined };
  try {
    const view = await withTimeout(limit, (signal) => follow(context, machine, { options, seen, signal }));
    context.host.result(view.data, () => view.text);
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
    throw new ClusterError(
      'cluster-join-wait-timeout',
      `${limit.what}: ${seen.last?.text ?? 'it says nothing'}`,
      {
        cause: seen.trouble,
        details: { ...seen.last?.data },
      },
    );
  }
}

async function open(
  context: CommandContext,
  options: JoinOptions,
): Promise<{ readonly channel: RpcChannel; readonly endpoints: readonly string[] }> {
  const { node, fingerprint, endpoints } = options;
  if (node === undefined) return { channel: await localChannel(context), endpoints };
  const { layout, state } = await readWorkspace(context);
  const known = (state.value.init?.result?.curatorEndpoints ?? []).map((each) =>
    formatEndpoint(hostOf(each), PORTS.join),
  );
  const where = endpoints.length > 0 ? endpoints : known;
  if (where.length === 0) throw new ClusterError('cluster-join-no-endpoint', `directing ${node}`);
  return { channel: await remoteChannel(context, layout, { node, fingerprint }), endpoints: where };
}

/** For as long as an agent that is being started may need. */
async function direct(
  { ports: { clock }, signal }: CommandContext,
  machine: Client<typeof Machine>,
  { endpoints, node }: JoinOptions,
) {
  const deadlineMs = clock.monotonicMs() + AGENT_MS;
  for (;;) {
    try {
      return await machine.direct({ endpoints: [...endpoints] }, { signal, timeoutMs: CALL_MS });
    } catch (error) {
      if (!(error instanceof RpcError) || error.code !== 'rpc-unreachable') throw error;
      if (clock.monotonicMs() > deadlineMs) {
        const code = node === undefined ? 'cluster-join-no-agent' : 'cluster-join-node-unreachable';
        throw new ClusterError(code, `directing ${node ?? 'this machine'}`, { cause: error });
      }
      await clock.sleep(POLL_MS, signal);
    }
  }
}

/** What of a wait is worth telling when it ends without its end. */
interface Seen {
  last: StageView | undefined;
  /** Why the machine cannot be heard just now. */
  trouble: unknown;
}

/** The view that ends the wait. A stream that breaks, because the agent was restarted, is opened again. */
export async function follow(
  context: Pick<CommandContext, 'host' | 'ports'>,
  machine: Pick<Client<typeof Machine>, 'watchEnrolment'>,
  at: {
    readonly options: Pick<JoinOptions, 'wait' | 'node'>;
    readonly seen: Seen;
    readonly signal: AbortSignal;
  },
): Promise<StageView> {
  const { options, seen, signal } = at;
  for (;;) {
    try {
      for await (const event of machine.watchEnrolment({}, { signal })) {
        const view = stageView(event);
        seen.trouble = undefined;
        if (JSON.stringify(view.data) !== JSON.stringify(seen.last?.data))
          context.host.say(view.code, view.text, view.data);
        seen.last = view;
        if (view.end === 'refused' || view.end === 'failed') throw ended(event.problem, view);
        if (!options.wait || view.end === 'running') return view;
        // A machine that has joined closes its init port: from afar there is nothing more to see.
        if (options.node !== undefined && view.end === 'member') return view;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof RpcError) || !error.retryable) throw error;
      const isInside = options.node !== undefined && seen.last?.code === 'join-stage-admitted';
      if (isInside && seen.last !== undefined) return seen.last;
      seen.trouble = error;
      await context.ports.clock.sleep(POLL_MS, signal);
    }
  }
}

function ended(
  problem: { code: string; message: string; fix: string; exit: string } | undefined,
  view: StageView,
): EnrolmentEnded {
  const { code = view.code, message = view.text, fix = '', exit = 'refused' } = problem ?? {};
  return new EnrolmentEnded({ code, message, fix }, exitOf(exit));
}

/** The problem that ended the enrolment of the machine, under the machine's own code. */
class EnrolmentEnded extends CodedError {
  constructor(
    problem: { readonly code: string; readonly message: string; readonly fix: string },
    exit: CodedError['exit'],
  ) {
    const { code, message, fix } = problem;
    super({ [code]: { fault: 'peer', exit, retryable: false, meaning: message, fix } }, code, message);
  }
}
