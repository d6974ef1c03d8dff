import { CLOCK_TOLERANCE_MS, formatDuration } from '../../../internal/clock/index.ts';
import type { DescribeResponse } from '../../../initproto/gen/init_pb.js';
import { parseManifest, type BundleManifest } from '../../../internal/bundle/index.ts';
import type { MasterSecret } from '../../../internal/crypto/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { exitOfCode } from '../../app/explain.ts';
import { formatBytes } from '../../host/index.ts';
import { readLocalBundle, type LocalBundle } from './local-bundle.ts';
import { ClusterError } from '../errors.ts';
import { followInit } from './follow-init.ts';
import {
  clusterIdFrom,
  createInitRequest,
  requestHashOf,
  requestFromState,
  requestToState,
  type InitRequest,
} from './init-request.ts';
import { verifyInitResult } from './init-result.ts';
import type { OpenWorkspace } from '../open-workspace.ts';
import { connectMachine, openSession, type InitParties } from '../machine/connect-machine.ts';
import { requirePreflight } from '../machine/machine-preflight.ts';
import type { Machine } from '../machine/init-session.ts';
import {
  saveRestoredCa,
  signedKeysIn,
  snapshotUploads,
  withRestore,
  type RestoreSource,
} from './restore-source.ts';
import { uploadMissing } from './upload.ts';
import { verifyMachine, type VerifiedMachine } from '../machine/verify-machine.ts';

/** The machine and the keys for a new cluster. */
export interface InitJobOptions extends InitParties {
  readonly masterSecret: MasterSecret;
  /** The backup that is restored; undefined for a new cluster. */
  readonly restore?: RestoreSource | undefined;
}

/**
 * Connects to the machine, uploads the components, runs the init and saves its result: afterwards the stage of the state is
 * `granted`.
 * @throws ClusterError; the machine's own codes when a phase fails
 */
export async function runInitJob(context: CommandContext, options: InitJobOptions): Promise<void> {
  const { workspace, config, machine } = options;
  const { host, ports } = context;
  const clusterId = clusterIdFrom(options.masterSecret);
  const known = workspace.state.value.init?.machine;
  using session = await openSession(context, options, clusterId);
  const connected = await host.step('init-connect', `Connecting to ${machine.endpoint}`, (progress) =>
    connectMachine(context, session, progress, workspace.state.value.init === undefined),
  );
  const { described } = connected;
  refuseOtherCluster(described, options);
  refuseOtherTime(Number(described.nowMs), ports.clock.nowMs(), machine);
  const verifiedMachine = await host.step('init-verify', 'Verifying the machine', () =>
    verifyMachine(context, { session, ...connected, known }),
  );
  const bundle = await readLocalBundle(context, config.kubernetesVersion, described.architecture);
  const request = await chooseRequest(options, described, {
    manifestBytes: bundle.manifestBytes,
    machine: verifiedMachine,
    nowMs: ports.clock.nowMs(),
  });
  const manifest = manifestOf(context, request, bundle);
  // A machine that has accepted an init passed these checks before, and its own services use the ports now.
  if (described.initId === '')
    await host.step('init-preflight', 'Running preflight checks', (progress) =>
      requirePreflight(context, session, preflightOf(request, options.restore), progress),
    );
  await host.step('init-upload', 'Uploading components', async (progress) => {
    const { blobs, bytes } = await uploadMissing(
      context,
      { session, store: bundle.store, manifest },
      progress,
    );
    const text =
      blobs === 0
        ? 'All components are already on the machine'
        : `Uploaded ${blobs} components (${formatBytes(bytes)})`;
    host.say('init-uploaded', text, { blobs, bytes });
  });
  const { restore } = options;
  if (restore !== undefined)
    await host.step('restore-upload', 'Uploading the data of the backup', (progress) =>
      uploadMissing(context, { session, ...snapshotUploads(restore) }, progress),
    );
  await saveRequest(context, { ...options, request, verifiedMachine });
  session.trust.expectLock({ shows: 'either', clusterId });
  const result = await followUntilDetached(context, workspace, () =>
    followInit(context, {
      ...{ session, initId: request.initId, exitOf: exitOfCode },
      spec: withRestore(request.spec, restore),
    }),
  );
  const verified = verifyInitResult(result, {
    clusterId: request.spec.clusterId,
    ownerKeyPem: options.ownerKey.keyPem,
    adminKeyPem: request.adminKeyPem,
  });
  await saveRestoredCa(
    ports.files,
    { path: workspace.layout.clusterCa, of: request.initId },
    { caPem: verified.clusterCaPem, restore },
  );
  await workspace.state.update((state) => ({
    ...state,
    init: state.init && { ...state.init, stage: 'granted', result: verified },
  }));
}

/** A machine without the space for the databases of a backup refuses before anything is uploaded. */
function preflightOf(
  { spec: { nodeName, bundleManifest } }: InitRequest,
  restore: RestoreSource | undefined,
): Parameters<typeof requirePreflight>[2] {
  const snapshots = restore === undefined ? [] : [restore.state, restore.kubernetes];
  const wire = snapshots.map(({ sha256, sizeBytes }) => ({ sha256, sizeBytes: BigInt(sizeBytes) }));
  return { nodeName, bundleManifest, snapshots: wire };
}

/** The machine would refuse the init anyway, but only after the upload. */
function refuseOtherCluster(described: DescribeResponse, options: InitJobOptions): void {
  const own = clusterIdFrom(options.masterSecret);
  if (described.clusterId === '' || described.clusterId === own) return;
  throw new ClusterError(
    'cluster-machine-taken',
    `machine ${options.machine.endpoint} belongs to cluster ${described.clusterId.slice(0, 64)}, not to ${own}`,
    { details: { clusterId: described.clusterId, own } },
  );
}

/** Certificates that one side issues must be valid on the other side. */
function refuseOtherTime(machineMs: number, ownMs: number, { endpoint }: Machine): void {
  const apartMs = machineMs - ownMs;
  if (Math.abs(apartMs) <= CLOCK_TOLERANCE_MS) return;
  const [theirs, ours] = [machineMs, ownMs].map((ms) => new Date(ms).toISOString().slice(0, 19));
  throw new ClusterError(
    'cluster-clocks-differ',
    `clock of ${endpoint} is ${formatDuration(Math.abs(apartMs))} ${apartMs < 0 ? 'behind' : 'ahead of'} ours (${theirs}Z, here ${ours}Z)`,
    { details: { machineMs, ownMs } },
  );
}

/**
 * Returns the saved request if the configuration has not changed since. A changed configuration gets a new request,
 * unless the machine has already accepted the saved one.
 */
async function chooseRequest(
  options: InitJobOptions,
  described: DescribeResponse,
  inputs: { readonly manifestBytes: Uint8Array; readonly machine: VerifiedMachine; readonly nowMs: number },
): Promise<InitRequest> {
  const { manifestBytes } = inputs;
  const { workspace, config, masterSecret, ownerKey } = options;
  const init = workspace.state.value.init;
  const saved = init === undefined ? undefined : requestFromState(init);
  if (saved?.requestHash === requestHashOf(config, manifestBytes)) return saved;
  if (saved !== undefined && described.initId === saved.initId) {
    // A bundle that was rebuilt since then does not change the request.
    if (saved.requestHash === requestHashOf(config, saved.spec.bundleManifest)) return saved;
    throw new ClusterError(
      'cluster-config-changed',
      `cannot resume init ${saved.initId}: cluster.yaml has changed since it started`,
    );
  }
  const epoch = options.restore?.epoch ?? 1;
  const sharedKeys = options.restore && signedKeysIn(options.restore);
  return createInitRequest({ config, masterSecret, ownerKey, epoch, sharedKeys, ...inputs });
}

/** The components that the request names: those of the bundle when the init started. */
function manifestOf(context: CommandContext, request: InitRequest, bundle: LocalBundle): BundleManifest {
  const requested = request.spec.bundleManifest;
  if (Buffer.compare(requested, bundle.manifestBytes) === 0) return bundle.manifest;
  const text = 'The bundle has changed since this init started; the init continues with the earlier bundle';
  context.host.say('init-bundle-kept', text, { initId: request.initId });
  return parseManifest(requested);
}

async function saveRequest(
  context: CommandContext,
  options: InitJobOptions & { readonly request: InitRequest; readonly verifiedMachine: VerifiedMachine },
): Promise<void> {
  const { workspace, machine, request, verifiedMachine } = options;
  const before = workspace.state.value.init;
  await workspace.state.update((state) => ({
    ...state,
    init: {
      id: request.initId,
      endpoint: machine.endpoint,
      fingerprint: verifiedMachine.fingerprint,
      machine: verifiedMachine.record,
      requestHash: request.requestHash,
      startedMs: before?.id === request.initId ? before.startedMs : context.ports.clock.nowMs(),
      stage: 'requested',
      request: requestToState(request),
    },
  }));
}

/** Tells an operator who interrupts the command that the init continues, and how to attach again. */
async function followUntilDetached<T>(
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
      context.host.say('init-detached', `The init continues on the machine. To attach again: ${command}`, {
        initId,
        command,
      });
    }
    throw error;
  }
}
