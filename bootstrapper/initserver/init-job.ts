import { familiesOf } from '../../internal/config/index.ts';
import type { IpFamily } from '../../internal/endpoint/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import { type NodeLock, NodeLockError } from '../nodelock/index.ts';
import { ChecksummedFile, MembershipError } from '../membership/index.ts';
import { verifyCertificateRequest } from '../../internal/pki/index.ts';
import type { PhaseLog, PhaseReporter } from '../phases/index.ts';
import { InitServerError } from './errors.ts';
import { digestOfSpec, type InitSpec } from './init-spec.ts';

/** An accepted request, kept until the owner has acknowledged the result. */
export interface InitRecord {
  readonly initId: string;
  readonly spec: InitSpec;
  /** The address of this machine when the request was accepted; etcd and certificates use this address. */
  readonly nodeAddress?: string;
}

/** The result for the owner: certificates as PEM, and endpoints. It contains no secrets. */
export interface InitOutcome {
  readonly clusterId: string;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly clusterCaPem: string;
  readonly ownerCertPem: string;
  readonly kubernetesCaPem: string;
  readonly kubernetesAdminCertPem: string;
  /** The CA of the admin certificate; undefined: the Kubernetes CA, as before the first rotation of the shared keys. */
  readonly kubernetesClientsCaPem?: string;
  readonly apiEndpoints: readonly string[];
  readonly curatorEndpoints: readonly string[];
  readonly epoch: number;
}

/** Ports (injected dependencies) of an init job. */
export interface InitJobPorts {
  readonly files: FilePort;
  readonly lock: NodeLock;
  readonly phases: PhaseReporter & Pick<PhaseLog, 'after'>;
  /** Runs the checks before anything changes; rejects with the reason of the first failure. */
  readonly preflight: (spec: InitSpec, signal: AbortSignal) => Promise<void>;
  /** The address at which other machines reach this one. */
  readonly ownAddress: (family: IpFamily | undefined) => string;
}

/** The owner's signature that acknowledges the result. */
export interface Acknowledgement {
  /** Signature over `ownershipStatement` (internal/crypto). */
  readonly ownershipSignatureBase64: string;
}

/**
 * The init of this machine. It is accepted once, saved on disk, and continues without the connection of the owner:
 * request checked → request on disk → node lock → (enrolment and role server do the work) → outcome on disk →
 * acknowledged A crash before the node lock leaves an unlocked machine. After a later crash, the agent resumes with the
 * request on disk.
 */
export class InitJob {
  readonly #ports: InitJobPorts;
  readonly #directory: string;
  readonly #restored = new EventValue<true>();
  readonly #accepted = new EventValue<InitRecord>();
  readonly #outcome = new EventValue<InitOutcome | undefined>();
  readonly #acknowledged = new EventValue<Acknowledgement>();
  #accepting: Promise<unknown> = Promise.resolve();

  constructor(ports: InitJobPorts, directory: string) {
    this.#ports = ports;
    this.#directory = directory;
    this.#outcome.set(undefined);
  }

  /** Set when the state of earlier runs of the agent is loaded. */
  get restored(): Readable<true> {
    return this.#restored;
  }

  /** Set once a request holds the node lock, even a request of an earlier run. */
  get accepted(): Readable<InitRecord> {
    return this.#accepted;
  }

  get outcome(): Readable<InitOutcome | undefined> {
    return this.#outcome;
  }

  get acknowledged(): Readable<Acknowledgement> {
    return this.#acknowledged;
  }

  /**
   * Whether this node is creating its cluster. Afterwards it is a control plane like any other: if it loses the role and gets
   * it again, it must request the shared keys and must not create them.
   */
  isInProgress(): boolean {
    const outcome = this.#outcome.peek();
    return this.#accepted.peek().set && outcome.set && outcome.value === undefined;
  }

  /** Loads the state of earlier runs of the agent. */
  async restore(): Promise<void> {
    const lock = await this.#ports.lock.read();
    if (lock?.by === 'join') await this.deleteRequest();
    const record = await this.#read<InitRecord>('request.json');
    if (lock?.by === 'init' && record !== undefined && lock.id === record.initId) {
      const outcome = await this.#read<InitOutcome>('outcome.json');
      const acknowledged = await this.#read<Acknowledgement>('acknowledged.json');
      if (outcome === undefined) await this.#endLock();
      this.#accepted.set(record);
      if (outcome !== undefined) this.#outcome.set(outcome);
      if (acknowledged !== undefined) {
        await this.#wipeSecrets(record);
        this.#acknowledged.set(acknowledged);
      }
    }
    this.#restored.set(true);
  }

  /** Accepts a request, or finds that it was accepted before. Concurrent calls run one after the other. */
  accept(request: InitRecord, signal: AbortSignal): Promise<void> {
    const accepted = this.#accepting.then(() => this.#accept(request, signal));
    this.#accepting = accepted.catch(() => undefined);
    return accepted;
  }

  async finish(outcome: InitOutcome): Promise<void> {
    await this.#write('outcome.json', outcome);
    this.#outcome.set(outcome);
  }

  /** Saves the acknowledgement and deletes the secrets of the request from the disk. */
  async acknowledge(ownershipSignatureBase64: string): Promise<void> {
    const acknowledgement = { ownershipSignatureBase64 };
    await this.#write('acknowledged.json', acknowledgement);
    const record = this.#accepted.peek();
    if (record.set) await this.#wipeSecrets(record.value);
    this.#acknowledged.set(acknowledgement);
  }

  /** Repeated at each start of the agent, in case it crashed after the acknowledgement was saved. */
  async #wipeSecrets(record: InitRecord): Promise<void> {
    if (record.spec.clusterUnlockKeyHex === '') return;
    await this.#write('request.json', { ...record, spec: withoutSecrets(record.spec) });
  }

  async #accept(request: InitRecord, signal: AbortSignal): Promise<void> {
    const known = this.#accepted.peek();
    if (known.set) return assertSame(known.value, request);
    const { lock, phases, preflight, ownAddress } = this.#ports;
    await refuseOtherCluster(lock, request);
    await phases.run('preflight', () => preflight(request.spec, signal));
    const record = { ...request, nodeAddress: ownAddress(familiesOf(request.spec.serviceSubnet)[0]) };
    await this.#write('request.json', record);
    await phases.run('lock', async () => {
      try {
        await lock.acquire({ clusterId: request.spec.clusterId, by: 'init', id: request.initId });
      } catch (error) {
        if (!isHeld(error)) throw error;
        await this.deleteRequest();
        throw otherCluster(String(error.details['clusterId']));
      }
    });
    this.#accepted.set(record);
  }

  /** Deletes the request after a join took the node lock: the secret for disk shares of another cluster must not stay on this disk. */
  async deleteRequest(): Promise<void> {
    await this.#ports.files.remove(this.#file('request.json').path);
  }

  /**
   * Reports the lock phase as finished if a crash prevented that. Otherwise an owner would see the phase as
   * running for ever.
   */
  async #endLock(): Promise<void> {
    const { phases } = this.#ports;
    const isReported = phases
      .after(0)
      .some(({ event }) => event.phase === 'lock' && event.kind === 'finished');
    if (!isReported) await phases.run('lock', (progress) => Promise.resolve(progress.reportUnchanged()));
  }

  async #read<T>(name: string): Promise<T | undefined> {
    const file = this.#file<T>(name);
    try {
      return await file.load();
    } catch (error) {
      if (!(error instanceof MembershipError)) throw error;
      const { path } = file;
      throw new InitServerError('initserver-record-damaged', 'resuming the init', {
        cause: error,
        details: { path },
      });
    }
  }

  async #write(name: string, value: unknown): Promise<void> {
    await this.#file(name).save(value);
  }

  #file<T>(name: string): ChecksummedFile<T> {
    return new ChecksummedFile<T>(this.#ports.files, `${this.#directory}/${name}`);
  }
}

async function refuseOtherCluster(lock: NodeLock, request: InitRecord): Promise<void> {
  const held = await lock.read();
  if (held === undefined || (held.by === 'init' && held.id === request.initId)) return;
  throw otherCluster(held.clusterId);
}

function isHeld(error: unknown): error is NodeLockError {
  return error instanceof NodeLockError && error.code === 'nodelock-held';
}

async function assertSame(known: InitRecord, request: InitRecord): Promise<void> {
  if (known.initId !== request.initId) throw otherCluster(known.spec.clusterId);
  const [before, now] = [known.spec, request.spec];
  const isSame =
    comparable(before) === comparable(now) &&
    (await isForSameKey(before.kubernetesAdminCsrBase64, now.kubernetesAdminCsrBase64)) &&
    (await isForSameKey(before.ownerCsrBase64, now.ownerCsrBase64));
  if (isSame) return;
  throw new InitServerError(
    'initserver-spec-changed',
    `specification differs from the specification of init ${request.initId}`,
  );
}

/**
 * The parts of a specification that a repeated request must not change. The secrets are left out, because
 * they are deleted at the end of an init.
 */
function comparable(spec: InitSpec): string {
  const { restore, ...rest } = withoutSecrets(spec);
  return digestOfSpec({
    ...rest,
    // A workspace may know other machines by now. Those of the first request count.
    ...(restore === undefined ? {} : { restore: { ...restore, knownMachines: [] } }),
    kubernetesAdminCsrBase64: '',
    ownerCsrBase64: '',
    ownerDocumentsBase64: [], // the signatures of these requests are new; the keys are compared separately
  });
}

function withoutSecrets(spec: InitSpec): InitSpec {
  const { restore, ...rest } = spec;
  return {
    ...{ ...rest, clusterUnlockKeyHex: '' },
    ...(restore === undefined ? {} : { restore: { ...restore, sharedKeys: {} } }),
  };
}

/**
 * Whether both certificate requests are for the same key. A workspace that lost its state signs its request
 * again, so the bytes differ.
 */
async function isForSameKey(knownBase64: string, base64: string): Promise<boolean> {
  if (knownBase64 === base64) return true;
  const [known, asked] = await Promise.all(
    [knownBase64, base64].map((each) => verifyCertificateRequest(Buffer.from(each, 'base64'))),
  );
  return known !== undefined && asked !== undefined && Buffer.compare(known, asked) === 0;
}

function otherCluster(clusterId: string): InitServerError {
  return new InitServerError('initserver-other-cluster', `this machine belongs to cluster ${clusterId}`, {
    details: { clusterId },
  });
}
