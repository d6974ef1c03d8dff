import { EnrolmentEvent_Stage, Machine, type EnrolmentEvent } from '../../../initproto/gen/machine_pb.js';
import { TimeoutError, withTimeout } from '../../../internal/cleanup/index.ts';
import { formatEndpoint, hostOf, PORTS } from '../../../internal/endpoint/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import { createClient, RpcError, type Client, type RpcChannel } from '../../../internal/rpc/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';
import { readWorkspace } from '../open-workspace.ts';
import { explainRemoteError, localChannel, remoteChannel } from './machine-channel.ts';
import { exitOf, stageView, type StageView } from './stage.ts';

const CALL_MS = 30_000;
/** The agent may be restarting, or not have started yet when automation runs the command. */
const AGENT_MS = 30_000;
const POLL_MS = 500;

/** Flags of `cluster join`; the time limit in ms. */
export interface JoinOptions {
  /** Control-plane nodes. Empty: those that the machine knows, or with `node` those that the workspace knows. */
  readonly endpoints: readonly string[];
  /** Address of another machine, called on its init port; undefined for this machine. */
  readonly node?: string;
  readonly fingerprint?: string;
  /** Whether to wait until the node is running. */
  readonly wait?: boolean;
  readonly timeoutMs: number;
}

/**
 * `cluster join`: tells the machine its control planes and shows its progress. Idempotent.
 * @throws ClusterError `cluster-join-*`; the machine's own code when the join is refused or failed
 */
export async function runJoin(context: CommandContext, options: JoinOptions): Promise<void> {
  const { channel, endpoints } = await open(context, options);
  using _channel = channel;
  const machine = createClient(Machine, channel);
  const target = await sendEndpoints(context, machine, { ...options, endpoints });
  context.host.say(
    'join-directed',
    `The machine joins through ${target.endpoints.join(', ') || 'the endpoints of its provisioning file'}.`,
    {
      ...{ endpoints: target.endpoints, fingerprint: target.fingerprint, joinId: target.nodeId },
    },
  );
  const limit = {
    what: 'waiting for the node to run',
    ms: options.wait ? options.timeoutMs : CALL_MS,
    clock: context.ports.clock,
    signal: context.signal,
  };
  const seen: Progress = { last: undefined, connectionError: undefined };
  try {
    const view = await withTimeout(limit, (signal) => follow(context, machine, { options, seen, signal }));
    context.host.result(view.data, () => view.text);
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
    throw new ClusterError(
      'cluster-join-wait-timeout',
      `${limit.what}: ${seen.last?.text ?? 'no progress reported'}`,
      {
        cause: seen.connectionError,
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
  if (where.length === 0)
    throw new ClusterError('cluster-join-no-endpoint', `no control-plane node known for ${node}`);
  return { channel: await remoteChannel(context, layout, { node, fingerprint }), endpoints: where };
}

/** Retries while the agent may be starting. */
async function sendEndpoints(
  { ports: { clock }, signal }: CommandContext,
  machine: Client<typeof Machine>,
  { endpoints, node, fingerprint }: JoinOptions,
) {
  const deadlineMs = clock.monotonicMs() + AGENT_MS;
  for (;;) {
    try {
      return await machine.direct({ endpoints: [...endpoints] }, { signal, timeoutMs: CALL_MS });
    } catch (error) {
      if (!(error instanceof RpcError) || error.code !== 'rpc-unreachable')
        throw node === undefined ? error : await explainRemoteError({ node, fingerprint }, error);
      if (clock.monotonicMs() > deadlineMs) {
        const code = node === undefined ? 'cluster-join-no-agent' : 'cluster-join-node-unreachable';
        throw new ClusterError(code, `calling the agent of ${node ?? 'this machine'}`, { cause: error });
      }
      await clock.sleep(POLL_MS, signal);
    }
  }
}

/** The last state, which the error reports when the wait times out. */
interface Progress {
  last: StageView | undefined;
  /** Why the machine does not respond at the moment. */
  connectionError: unknown;
}

/**
 * Shows each stage until the wait ends; returns the last one. Reopens the stream when it breaks, for example because the agent
 * restarts. Exported for its test.
 */
export async function follow(
  context: Pick<CommandContext, 'host' | 'ports'>,
  machine: Pick<Client<typeof Machine>, 'watchEnrolment'>,
  at: {
    readonly options: Pick<JoinOptions, 'wait' | 'node'>;
    readonly seen: Progress;
    readonly signal: AbortSignal;
  },
): Promise<StageView> {
  const { options, seen, signal } = at;
  for (;;) {
    try {
      for await (const event of machine.watchEnrolment({}, { signal })) {
        const view = stageView(event);
        seen.connectionError = undefined;
        if (JSON.stringify(view.data) !== JSON.stringify(seen.last?.data))
          context.host.say(view.code, view.text, view.data);
        seen.last = view;
        if (view.end === 'refused' || view.end === 'failed' || isUnfit(event))
          throw ended(event.problem, view);
        if (!options.wait || view.end === 'running') return view;
        // A machine that has joined closes its init port: nothing more can be read remotely.
        if (options.node !== undefined && view.end === 'member') return view;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof RpcError) || !error.retryable) throw error;
      const hasJoined = options.node !== undefined && seen.last?.code === 'join-stage-admitted';
      if (hasJoined && seen.last !== undefined) return seen.last;
      seen.connectionError = error;
      await context.ports.clock.sleep(POLL_MS, signal);
    }
  }
}

/** Whether the machine asks nobody because its own checks fail. It repeats them, but somebody has to change the machine first. */
function isUnfit({ stage, problem }: EnrolmentEvent): boolean {
  return stage === EnrolmentEvent_Stage.ASKING && problem?.code.startsWith('preflight-') === true;
}

/** The problem with which the join ended, under the machine's own code. */
function ended(
  problem: { code: string; message: string; fix: string; exit: string } | undefined,
  view: StageView,
): CodedError {
  const { code = view.code, message = view.text, fix = '', exit = 'refused' } = problem ?? {};
  const spec = { fault: 'peer', exit: exitOf(exit), retryable: false, meaning: message, fix } as const;
  return new CodedError({ [code]: spec }, code, message);
}
