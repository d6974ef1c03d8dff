import { formatDuration } from '../../../internal/clock/index.ts';
import type { DescribeResponse } from '../../../initproto/gen/init_pb.js';
import { parseManifest, type BundleManifest } from '../../../internal/bundle/index.ts';
import type { ClusterConfig } from '../../../internal/config/index.ts';
import type { MasterSecret } from '../../../internal/crypto/index.ts';
import type { Issuer } from '../../../internal/attestation/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { exitOfCode } from '../../app/explain.ts';
import { formatBytes } from '../../host/index.ts';
import type { OwnerKey } from '../../workspace/index.ts';
import { CollateralStore } from '../../attest/index.ts';
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
import { knownMachine, connectMachine, machineTrustFor } from '../machine/connect-machine.ts';
import { requirePreflight } from '../machine/machine-preflight.ts';
import { InitSession, type Machine } from '../machine/init-session.ts';
import { uploadMissing } from './upload.ts';
import { verifyMachine, type VerifiedMachine } from '../machine/verify-machine.ts';

const CLOCK_TOLERANCE_MS = 5 * 60 * 1000;

export interface InitJobOptions {
  readonly workspace: OpenWorkspace;
  readonly config: ClusterConfig;
  readonly machine: Machine;
  /** Shows the owner key. */
  readonly owner: Issuer;
  readonly ownerKey: OwnerKey;
  readonly masterSecret: MasterSecret;
}

/** Connect, upload, run the job, keep what it gives: afterwards the state's stage is `granted`. */
export async function runInitJob(context: CommandContext, options: InitJobOptions): Promise<void> {
  const { workspace, config, machine, owner } = options;
  const { host, ports } = context;
  const clusterId = clusterIdFrom(options.masterSecret);
  const state = workspace.state.value;
  const collateral = await new CollateralStore(ports.files, context.paths.workspace).collateral();
  const trust = machineTrustFor({ config, machine, clusterId, state, collateral });
  using session = new InitSession({ machine, owner, trust, clock: ports.clock });
  const met = await host.step('init-connect', `Connecting to ${machine.endpoint}`, (progress) =>
    connectMachine(context, session, progress),
  );
  const { described } = met;
  refuseOtherCluster(described, options);
  refuseOtherTime(Number(described.nowMs), ports.clock.nowMs(), machine);
  const verifiedMachine = await host.step('init-verify', 'Verifying the machine', () =>
    verifyMachine(context, { session, ...met, known: knownMachine(state) }),
  );
  const bundle = await readLocalBundle(context, config.kubernetesVersion, described.architecture);
  const request = await chooseRequest(options, described, {
    manifestBytes: bundle.manifestBytes,
    machine: verifiedMachine,
    nowMs: ports.clock.nowMs(),
  });
  const manifest = manifestOf(context, request, bundle);
  // One that has accepted an init checked itself before, and its own services hold the ports now.
  if (described.initId === '')
    await host.step('init-preflight', 'Checking the machine', (progress) =>
      requirePreflight(context, session, request.spec, progress),
    );
  await host.step('init-upload', 'Giving the machine its components', async (progress) => {
    const { blobs, bytes } = await uploadMissing(
      context,
      { session, store: bundle.store, manifest },
      progress,
    );
    const text =
      blobs === 0 ? 'The machine has all components' : `Uploaded ${blobs} components, ${formatBytes(bytes)}`;
    host.say('init-uploaded', text, { blobs, bytes });
  });
  await saveRequest(context, { ...options, request, verifiedMachine });
  session.trust.expectLock({ shows: 'either', clusterId });
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

/** The machine's word is enough to stop: going on would be refused there too, after an upload for nothing. */
function refuseOtherCluster(described: DescribeResponse, options: InitJobOptions): void {
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
  options: InitJobOptions,
  described: DescribeResponse,
  made: { readonly manifestBytes: Uint8Array; readonly machine: VerifiedMachine; readonly nowMs: number },
): Promise<InitRequest> {
  const { manifestBytes } = made;
  const { workspace, config, masterSecret, ownerKey } = options;
  const init = workspace.state.value.init;
  const saved = init === undefined ? undefined : requestFromState(init);
  if (saved?.requestHash === requestHashOf(config, manifestBytes)) return saved;
  if (saved !== undefined && described.initId === saved.initId) {
    // A bundle that was made anew since then changes nothing of what was asked for.
    if (saved.requestHash === requestHashOf(config, saved.spec.bundleManifest)) return saved;
    throw new ClusterError(
      'cluster-config-changed',
      `going on with init ${saved.initId}: cluster.yaml asks for something else than when it began`,
    );
  }
  return createInitRequest({ config, masterSecret, ownerKey, ...made });
}

/** The components that the request names: those of the bundle as it was when the init began. */
function manifestOf(context: CommandContext, request: InitRequest, bundle: LocalBundle): BundleManifest {
  const begunWith = request.spec.bundleManifest;
  if (Buffer.compare(begunWith, bundle.manifestBytes) === 0) return bundle.manifest;
  const text = 'The bundle has changed since this init began; it goes on with the one it was begun with';
  context.host.say('init-bundle-kept', text, { initId: request.initId });
  return parseManifest(begunWith);
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
