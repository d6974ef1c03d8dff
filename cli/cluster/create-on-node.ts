import type { DescribeResponse } from '../../initproto/gen/init_pb.js';
import type { ClusterConfig } from '../../internal/config/index.ts';
import type { MasterSecret } from '../../internal/crypto/index.ts';
import type { TlsIdentity } from '../../internal/rpc/index.ts';
import type { CommandContext, StepProgress } from '../app/command.ts';
import { exitOfCode } from '../app/explain.ts';
import { PROGRAM_VERSION } from '../app/version.ts';
import { formatBytes, formatDuration } from '../host/index.ts';
import type { OwnerKey } from '../workspace/index.ts';
import { readBundle } from './bundle.ts';
import { ClusterError } from './errors.ts';
import { followInit } from './follow-init.ts';
import {
  clusterIdFrom,
  createInitRequest,
  requestHashOf,
  restoredRequest,
  savedRequest,
  type InitRequest,
} from './init-request.ts';
import { verifyInitResult } from './init-result.ts';
import type { OpenWorkspace } from './open-workspace.ts';
import { persist } from './persist.ts';
import { InitSession, type Machine } from './session.ts';
import { uploadMissing } from './upload.ts';

const ANSWER_MS = 10_000;
/** Two complete handshakes without an answer: not a broken network but an owner whom the machine does not know. */
const UNANSWERED_HANDSHAKES = 2;
const CONNECT_PATIENCE_MS = 90_000;
const CLOCK_TOLERANCE_MS = 5 * 60 * 1000;

export interface CreateOptions {
  readonly workspace: OpenWorkspace;
  readonly config: ClusterConfig;
  readonly machine: Machine;
  readonly identity: TlsIdentity;
  readonly ownerKey: OwnerKey;
  readonly masterSecret: MasterSecret;
}

/** Connect, upload, run the job, keep what it gives: afterwards the state's stage is `granted`. */
export async function createOnNode(context: CommandContext, options: CreateOptions): Promise<void> {
  const { workspace, config, machine, identity } = options;
  using session = new InitSession(machine, identity);
  const { host } = context;
  const described = await host.step('init-connect', `Connecting to ${machine.endpoint}`, (progress) =>
    describeMachine(context, session, progress),
  );
  refuseOtherCluster(described, options);
  refuseOtherTime(Number(described.nowMs), context.ports.clock.nowMs(), machine);
  const bundle = await readBundle(context, config.kubernetesVersion, described.architecture);
  const request = await chooseRequest(options, described, bundle.manifestBytes);
  await host.step('init-upload', 'Giving the machine its components', async (progress) => {
    const { blobs, bytes } = await uploadMissing(context, { session, ...bundle }, progress);
    const text =
      blobs === 0 ? 'The machine has all components' : `Uploaded ${blobs} components, ${formatBytes(bytes)}`;
    host.say('init-uploaded', text, { blobs, bytes });
  });
  await saveRequest(context, options, request);
  const result = await followWithFarewell(context, workspace, () =>
    followInit(context, { session, initId: request.initId, spec: request.spec, exitOf: exitOfCode }),
  );
  const verified = verifyInitResult(result, {
    clusterId: request.spec.clusterId,
    ownerKeyPem: options.ownerKey.keyPem,
    adminKeyPem: request.adminKeyPem,
  });
  await workspace.state.update((state) => ({
    ...state,
    init: state.init && { ...state.init, stage: 'granted', result: verified },
  }));
}

async function describeMachine(
  context: CommandContext,
  session: InitSession,
  progress: StepProgress,
): Promise<DescribeResponse> {
  const { signal, ports } = context;
  const { endpoint } = session.machine;
  return persist(
    {
      clock: ports.clock,
      signal,
      doing: `connecting to ${endpoint}`,
      patienceMs: CONNECT_PATIENCE_MS,
      onLost: (why) => {
        progress.update(`trying again: ${why}`);
        if (session.handshakes < UNANSWERED_HANDSHAKES) return;
        throw new ClusterError(
          'cluster-owner-refused',
          `connecting to ${endpoint}: it ends each session at once, so it does not know the owner key of this workspace`,
        );
      },
    },
    () => session.client.describe({ clientVersion: PROGRAM_VERSION }, { signal, timeoutMs: ANSWER_MS }),
  );
}

/** The machine's word is enough to stop: going on would be refused there too, after an upload for nothing. */
function refuseOtherCluster(described: DescribeResponse, options: CreateOptions): void {
  const own = clusterIdFrom(options.masterSecret);
  if (described.clusterId === '' || described.clusterId === own) return;
  throw new ClusterError(
    'cluster-machine-taken',
    `connecting to ${options.machine.endpoint}: the machine belongs to cluster ${described.clusterId.slice(0, 64)}, this workspace is ${own}`,
    { details: { clusterId: described.clusterId, own } },
  );
}

/** Certificates that one end makes must be valid at the other, now and after each renewal. */
function refuseOtherTime(machineMs: number, ownMs: number, { endpoint }: Machine): void {
  const apartMs = machineMs - ownMs;
  if (Math.abs(apartMs) <= CLOCK_TOLERANCE_MS) return;
  const [theirs, ours] = [machineMs, ownMs].map((ms) => new Date(ms).toISOString().slice(0, 19));
  throw new ClusterError(
    'cluster-clocks-differ',
    `connecting to ${endpoint}: its clock is ${formatDuration(Math.abs(apartMs))} ${apartMs < 0 ? 'behind' : 'ahead of'} ours: ${theirs}Z there, ${ours}Z here`,
    { details: { machineMs, ownMs } },
  );
}

/**
 * The saved request while it asks for the same as the configuration does now. Another one may take its place only
 * while the machine has not accepted it.
 */
async function chooseRequest(
  options: CreateOptions,
  described: DescribeResponse,
  manifestBytes: Uint8Array,
): Promise<InitRequest> {
  const { workspace, config, masterSecret, ownerKey } = options;
  const init = workspace.state.value.init;
  const saved = init === undefined ? undefined : restoredRequest(init);
  const unchanged = saved?.requestHash === requestHashOf(config, manifestBytes);
  if (saved !== undefined && unchanged) return saved;
  if (saved !== undefined && described.initId === saved.initId) {
    throw new ClusterError(
      'cluster-config-changed',
      `going on with init ${saved.initId}: cluster.yaml or the bundle is not what it was begun with`,
    );
  }
  return createInitRequest({ config, masterSecret, ownerKey, manifestBytes });
}

async function saveRequest(
  context: CommandContext,
  options: CreateOptions,
  request: InitRequest,
): Promise<void> {
  const { workspace, machine } = options;
  const before = workspace.state.value.init;
  if (before?.id === request.initId && before.endpoint === machine.endpoint) return;
  await workspace.state.update((state) => ({
    ...state,
    init: {
      id: request.initId,
      endpoint: machine.endpoint,
      fingerprint: machine.fingerprint,
      requestHash: request.requestHash,
      startedMs: before?.id === request.initId ? before.startedMs : context.ports.clock.nowMs(),
      stage: 'requested',
      request: savedRequest(request),
    },
  }));
}

/** Whoever leaves is told what goes on without them, and how to come back. */
async function followWithFarewell<T>(
  context: CommandContext,
  workspace: OpenWorkspace,
  follow: () => Promise<T>,
): Promise<T> {
  try {
    return await follow();
  } catch (error) {
    if (context.signal.aborted) {
      const initId = workspace.state.value.init?.id;
      const command = `cluster init --workspace ${context.paths.workspace}`;
      context.host.say('init-detached', `The init goes on on the node. Attach again with: ${command}`, {
        initId,
        command,
      });
    }
    throw error;
  }
}
