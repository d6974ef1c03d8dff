import { verify, type KeyObject } from 'node:crypto';
import { decodeChallenge, encodeEnrolmentRequest } from '../../internal/attestation/enrolment/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { ownershipStatement } from '../../internal/crypto/index.ts';
import { parseManifest } from '../../internal/bundle/index.ts';
import type { CheckResult } from '../../internal/preflight/index.ts';
import type { CodedError } from '../../internal/errors/index.ts';
import type { MachinePort } from '../../internal/platform/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import type { InitApi, PreflightRequest } from '../../initproto/gen/init_pb.js';
import type { MachineEvidence } from '../attest/index.ts';
import type { PhaseLog } from '../phases/index.ts';
import { InitServerError } from './errors.ts';
import { streamJob } from './stream-job.ts';
import type { InitJob } from './init-job.ts';
import { parseInitSpec } from './init-spec.ts';

const MAX_BLOBS = 256;
const MAX_CHALLENGE_BYTES = 4096;
/** Label under which the machine signs a session with its key; see init.proto. */
const KEY_LABEL = 'cluster/init/key/v1';
const MAX_BLOB_BYTES = 2 * 1024 * 1024 * 1024;

/** An owner, authenticated by the session. */
export interface OwnerPeer {
  readonly kind: 'owner';
  readonly publicKey: KeyObject;
  /** Bytes of the attested TLS session that are signed to prove a key. */
  readonly session: Uint8Array;
}

/** Ports (injected dependencies) of the handlers of the Init contract. */
export interface InitServicePorts {
  readonly job: InitJob;
  readonly phases: PhaseLog;
  readonly clock: Clock;
  readonly machine: MachinePort;
  readonly blobs: BlobUploads;
  readonly evidence: Pick<MachineEvidence, 'proveKey' | 'readEnrolment' | 'answerChallenge'>;
  readonly agentVersion: string;
  /** "sha256:HEX" of the machine's public key. */
  readonly fingerprint: string;
  /** Returns the result of each preflight check; changes nothing. */
  reportChecks(ask: PreflightQuery): Promise<readonly CheckResult[]>;
  /** Ends the pauses after failures. */
  retryNow(): void;
  enrolmentState(): string;
  /** The reason of a final enrolment failure. */
  enrolmentFailure(): CodedError | undefined;
}

/** The subject of the preflight checks that an owner requests. */
export interface PreflightQuery {
  /** Name of the new node; empty: the machine's hostname. */
  readonly nodeName: string;
  /** Manifest of the bundle; empty: the components are not known yet. */
  readonly bundleManifest: string;
  /** Size of the components, and of the snapshots of a restore, that are missing on the machine. */
  readonly missingBytes: number;
  /** Size of the databases that are restored from the snapshots. */
  readonly databaseBytes: number;
  /** Time on the clock of the caller, to compare with the clock of this machine. */
  readonly callerNowMs: number;
}

/** Handlers of the Init contract. The listener admits only owners. */
export function createInitHandlers(ports: InitServicePorts): Handlers<typeof InitApi, OwnerPeer> {
  const { job, phases, clock, machine, blobs } = ports;
  return {
    ...machineHandlers(ports, () => {
      const known = job.accepted.peek();
      const init = known.set ? { clusterId: known.value.spec.clusterId, initId: known.value.initId } : {};
      return { enrolmentState: ports.enrolmentState(), ...init };
    }),
    preflight: async (request) => {
      // After an accepted init, the checks would report this machine's own services as programs that use its
      // ports.
      if (job.accepted.peek().set)
        throw new InitServerError('initserver-in-progress', 'cannot run preflight checks during an init');
      const checks = await ports.reportChecks(await preflightAsk(request, blobs));
      return { checks: checks.map(wireCheck) };
    },
    statBlobs: async ({ sha256 }) => {
      if (sha256.length > MAX_BLOBS) throw invalid('sha256', `${sha256.length} hashes, at most ${MAX_BLOBS}`);
      const found = await Promise.all(
        sha256.map(async (hash) => ({ sha256: assertHash(hash), ...(await blobs.state(hash)) })),
      );
      return {
        blobs: found.map((blob) => ({ ...blob, partialBytes: BigInt(blob.partialBytes) })),
        freeBytes: BigInt(await blobs.freeBytes()),
      };
    },
    uploadBlob: (requests) => receiveBlob(requests, blobs),
    init: async function* (request, call) {
      if (!/^[0-9a-f-]{36}$/.test(request.initId)) throw invalid('init_id', 'not a UUID');
      const record = { initId: request.initId, spec: parseInitSpec(request.spec, machine.hostname()) };
      const failure = ports.enrolmentFailure();
      if (failure !== undefined) throw failure;
      const known = job.accepted.peek().set;
      await job.accept(record, call.signal);
      // The owner may have removed the cause of a failure: retry without waiting for the rest of the pause.
      if (known) ports.retryNow();
      yield* streamJob({ job, phases, clock, afterSequence: Number(request.afterSequence) }, call.signal);
    },
    acknowledge: async ({ initId, ownershipSignature }, call) => {
      const known = job.accepted.peek();
      const outcome = job.outcome.peek();
      if (!known.set || known.value.initId !== initId || !outcome.set || outcome.value === undefined) {
        throw new InitServerError(
          'initserver-no-job',
          `no result of init ${initId.slice(0, 40)} to acknowledge`,
        );
      }
      const statement = ownershipStatement({ ...outcome.value, epoch: BigInt(outcome.value.epoch) });
      if (!verify(undefined, statement, call.peer.publicKey, ownershipSignature)) {
        throw new InitServerError('initserver-signature-invalid', 'invalid signature of the acknowledgement');
      }
      await job.acknowledge(Buffer.from(ownershipSignature).toString('base64'));
      return {};
    },
  };
}

/**
 * Handlers for a machine that is not ready for an init. They describe the machine and its TPM, and refuse all other
 * calls.
 */
export function createRefusingInitHandlers(
  ports: MachineDescriptionPorts,
  options: { readonly enrolmentState: string; readonly reason: () => CodedError },
): Handlers<typeof InitApi, OwnerPeer> {
  const { enrolmentState, reason } = options;
  const refuse = (): Promise<never> => Promise.reject(reason());
  return {
    ...machineHandlers(ports, () => ({ enrolmentState })),
    preflight: refuse,
    statBlobs: refuse,
    uploadBlob: refuse,
    init: async function* () {
      throw reason();
    },
    acknowledge: refuse,
  };
}

/** Ports (injected dependencies) that describe a machine and its TPM. */
export type MachineDescriptionPorts = Pick<
  InitServicePorts,
  'clock' | 'machine' | 'evidence' | 'agentVersion' | 'fingerprint'
>;

/** Handlers that describe the machine and answer the challenges of TPM credential activation. */
function machineHandlers(
  ports: MachineDescriptionPorts,
  state: () => { readonly enrolmentState: string; readonly clusterId?: string; readonly initId?: string },
): Pick<Handlers<typeof InitApi, OwnerPeer>, 'describe' | 'readEnrolment' | 'answerChallenge'> {
  const { machine, evidence } = ports;
  return {
    describe: (request, call) => {
      if (request.clientVersion !== '') assertCompatible(request.clientVersion, ports.agentVersion);
      return Promise.resolve({
        agentVersion: ports.agentVersion,
        fingerprint: ports.fingerprint,
        hostname: machine.hostname(),
        addresses: [...machine.addresses()],
        architecture: machine.architecture(),
        ...state(),
        nowMs: BigInt(ports.clock.nowMs()),
        key: evidence.proveKey(KEY_LABEL, call.peer.session),
      });
    },
    readEnrolment: async (_request, call) => {
      const enrolment = await evidence.readEnrolment(call.signal);
      return {
        enrolment: enrolment === undefined ? new Uint8Array() : encodeEnrolmentRequest(enrolment),
      };
    },
    answerChallenge: async ({ challenge }, { peer, signal }) => {
      if (challenge.length > MAX_CHALLENGE_BYTES)
        throw invalid('challenge', `${challenge.length} bytes, at most ${MAX_CHALLENGE_BYTES} allowed`);
      return { answer: await evidence.answerChallenge(decodeChallenge(challenge), peer.session, signal) };
    },
  };
}

async function preflightAsk(request: PreflightRequest, blobs: BlobUploads): Promise<PreflightQuery> {
  const { nodeName, bundleManifest, nowMs, snapshots: sent } = request;
  const all = bundleManifest.length === 0 ? [] : parseManifest(bundleManifest).components;
  const components = all.filter(({ scope }) => scope === 'node' || scope === 'controlplane');
  if (components.length > MAX_BLOBS) throw invalid('bundle_manifest', `${components.length} components`);
  if (sent.length > MAX_BLOBS) throw invalid('snapshots', `${sent.length} snapshots`);
  const snapshots = sent.map(({ sha256, sizeBytes }) => ({
    sha256: assertHash(sha256),
    sizeBytes: Number(sizeBytes),
  }));
  const missing = await Promise.all(
    [...components, ...snapshots].map(async ({ sha256, sizeBytes }) =>
      (await blobs.state(sha256)).complete ? 0 : sizeBytes,
    ),
  );
  return {
    nodeName,
    bundleManifest: Buffer.from(bundleManifest).toString('utf8'),
    missingBytes: missing.reduce((sum, bytes) => sum + bytes, 0),
    databaseBytes: snapshots.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    callerNowMs: Number(nowMs),
  };
}

function wireCheck({ code, subject, status, figure, threshold, cause, fix }: CheckResult) {
  return { code, subject, status, figure, threshold, cause, fix };
}

type UploadRequests = Parameters<Handlers<typeof InitApi, OwnerPeer>['uploadBlob']>[0];

async function receiveBlob(
  requests: UploadRequests,
  blobs: BlobUploads,
): Promise<{ complete: boolean; partialBytes: bigint }> {
  let blob: { readonly sha256: string; readonly sizeBytes: number } | undefined;
  let offset = 0;
  for await (const { part } of requests) {
    if (part.case === 'start') {
      if (blob !== undefined) throw invalid('start', 'sent twice');
      const sizeBytes = Number(part.value.sizeBytes);
      if (sizeBytes <= 0 || sizeBytes > MAX_BLOB_BYTES) throw invalid('size_bytes', `${sizeBytes}`);
      blob = { sha256: assertHash(part.value.sha256), sizeBytes };
      offset = Number(part.value.offset);
    } else if (part.case === 'chunk') {
      if (blob === undefined) throw invalid('chunk', 'sent before start');
      if (offset + part.value.length > blob.sizeBytes) throw invalid('chunk', 'more bytes than announced');
      await blobs.append(blob.sha256, offset, part.value);
      offset += part.value.length;
    }
  }
  if (blob === undefined) throw invalid('start', 'missing');
  if (offset < blob.sizeBytes) return { complete: false, partialBytes: BigInt(offset) };
  await blobs.commit(blob.sha256);
  return { complete: true, partialBytes: BigInt(offset) };
}

function assertHash(text: string): string {
  if (!/^[0-9a-f]{64}$/.test(text)) throw invalid('sha256', 'not a SHA-256 in lower-case hex');
  return text;
}

/** CLI and agent may differ by one minor version. */
function assertCompatible(client: string, agent: string): void {
  const [theirs, ours] = [client, agent].map((version) => /^(\d+)\.(\d+)\./.exec(version));
  const fine = theirs?.[1] === ours?.[1] && Math.abs(Number(theirs?.[2]) - Number(ours?.[2])) <= 1;
  if (!fine)
    throw new InitServerError(
      'initserver-version',
      `CLI version ${client.slice(0, 20)} is not compatible with agent version ${agent}`,
    );
}

function invalid(field: string, why: string): InitServerError {
  return new InitServerError('initserver-spec-invalid', `invalid ${field}: ${why}`, {
    details: { field },
  });
}

/** The part of the blob store that an upload uses. */
export interface BlobUploads {
  state(sha256: string): Promise<{ readonly complete: boolean; readonly partialBytes: number }>;
  append(sha256: string, offset: number, bytes: Uint8Array): Promise<void>;
  /** Checks the hash; if it does not match, deletes the bytes and rejects. */
  commit(sha256: string): Promise<void>;
  freeBytes(): Promise<number>;
}
