import { createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DiskFiles, type FilePort } from '../../../internal/file/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';
import type { TlsIdentity } from '../../../internal/rpc/index.ts';
import { TestApiServer, TestEtcd, untilServing, type ApiRequest } from '../../../internal/testing/index.ts';
import { buildKubeadmConfig } from '../kubeadm/kubeadm-config.ts';
import { PATHS, type KubernetesSettings } from '../settings.ts';
import { writeAdmissionConfig } from './admission-config.ts';
import { writeAuditPolicy } from './audit-policy.ts';
import { writeAuthenticationConfig } from './authentication-config.ts';

const NAMESPACE = '/api/v1/namespaces/default';
/** What a kubelet requests. Only requests for this time may be extended. */
const KUBELET_TOKEN_SECONDS = 3607;
/** Arguments whose files these machines do not have. */
const LEFT_OUT = ['authorization-config', 'encryption-provider-config', 'kubelet-certificate-authority'];
/** Limits that a test reaches: a file of the audit log has at least 1 MB. The unit tests have those of clusters. */
const SMALLER: Readonly<Record<string, string>> = { 'audit-log-maxsize': '1', 'audit-log-maxbackup': '2' };
/** Events of a namespace that are accepted at once, if they are limited. */
export const EVENTS = 20;

type Answer = Awaited<ReturnType<TestApiServer['ask']>>;

/**
 * A control plane of which the API server and its etcd are real, and nothing else is there. The API server has the arguments and files that the
 * agent gives to it, below a directory of its own.
 */
export class FakeControlPlane implements AsyncDisposable {
  readonly #directory: string;
  readonly #etcd: TestEtcd;
  readonly #api: TestApiServer;
  readonly #admin: TlsIdentity;

  private constructor(
    directory: string,
    parts: { readonly etcd: TestEtcd; readonly api: TestApiServer; readonly admin: TlsIdentity },
  ) {
    this.#directory = directory;
    this.#etcd = parts.etcd;
    this.#api = parts.api;
    this.#admin = parts.admin;
  }

  /** Starts both and waits until the API server is ready. */
  static async create(settings: KubernetesSettings): Promise<FakeControlPlane> {
    const directory = await mkdtemp(join(tmpdir(), 'cluster-api-server-'));
    const etcd = await TestEtcd.create();
    const member = await etcd.startMember('one');
    await untilServing(await etcd.connect('root', member.endpoint));
    const api = await TestApiServer.create(directory, etcd, member.endpoint);
    const caKey = generateKeyPem();
    const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem: caKey, nowMs: Date.now() });
    const ca = new KeyCertificateSigner({ caPem, keyPem: caKey, nowMs: () => Date.now() });
    const tokenKey = createPrivateKey(generateKeyPem().reveal());
    const files = {
      'ca.crt': caPem,
      'sa.key': tokenKey.export({ type: 'sec1', format: 'pem' }).toString(),
      'sa.pub': createPublicKey(tokenKey).export({ type: 'spki', format: 'pem' }).toString(),
    };
    for (const [name, text] of Object.entries(files))
      await writeFile(join(directory, name), text, { mode: 0o600 });
    const disk = relocated(directory);
    await writeAdmissionConfig(disk, settings);
    await allowFewEvents(directory);
    await writeAuthenticationConfig(disk, settings);
    await writeAuditPolicy(disk);
    await api.start(flagsFor(settings, directory));
    return new FakeControlPlane(directory, { etcd, api, admin: await administrator(ca) });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#api[Symbol.asyncDispose]();
    await this.#etcd[Symbol.asyncDispose]();
    await rm(this.#directory, { recursive: true });
  }

  /** The directory of the audit log. */
  get auditDirectory(): string {
    return moved(this.#directory, dirname(PATHS.auditLog));
  }

  /** A request without credentials, unless the options have some. */
  ask(path: string, options?: ApiRequest): Promise<Answer> {
    return this.#api.ask(path, options);
  }

  /** Reads an object as an administrator. */
  get(path: string): Promise<Answer> {
    return this.ask(path, { identity: this.#admin });
  }

  /** Creates an object as an administrator. */
  create(path: string, body: object): Promise<Answer> {
    return this.ask(path, { identity: this.#admin, body });
  }
}

/** The path on this machine for a path of a node. */
function moved(directory: string, path: string): string {
  return join(directory, path.replaceAll('/', '-'));
}

/** The path on this machine for a file of a node. */
function onThisMachine(directory: string, path: string): string {
  return join(moved(directory, dirname(path)), path.slice(dirname(path).length + 1));
}

function relocated(directory: string): FilePort {
  const files = new DiskFiles();
  return Object.assign(Object.create(files) as DiskFiles, {
    makeDirectory: (path: string, mode?: number) => files.makeDirectory(moved(directory, path), mode),
    writeAtomic: (path: string, text: string) => files.writeAtomic(onThisMachine(directory, path), text),
  });
}

/** Replaces the limit of a namespace, if there is one, because thousands of events would take too long. */
async function allowFewEvents(directory: string): Promise<void> {
  const path = onThisMachine(directory, PATHS.admission);
  const { plugins, ...rest } = JSON.parse(await readFile(path, 'utf8')) as {
    plugins: { name: string; configuration: { limits?: { type: string }[] } }[];
  };
  const limits = plugins.flatMap(({ configuration }) => configuration.limits ?? []);
  for (const limit of limits.filter(({ type }) => type === 'Namespace'))
    Object.assign(limit, { qps: 1, burst: EVENTS });
  await writeFile(path, JSON.stringify({ ...rest, plugins }));
}

function flagsFor(settings: KubernetesSettings, directory: string): string[] {
  const at = (name: string): string => join(directory, name);
  const etcdFiles = { endpoint: '', caFile: '', certFile: '', keyFile: '' };
  const [, cluster = ''] = buildKubeadmConfig(settings, etcdFiles).split('\n---\n');
  const { apiServer: own } = JSON.parse(cluster) as {
    readonly apiServer: { readonly extraArgs: readonly { readonly name: string; readonly value: string }[] };
  };
  return [
    `--client-ca-file=${at('ca.crt')}`,
    '--allow-privileged=true', // as kubeadm sets it
    '--authorization-mode=RBAC',
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${at('sa.pub')}`,
    `--service-account-signing-key-file=${at('sa.key')}`,
    ...own.extraArgs
      .filter(({ name }) => !LEFT_OUT.some((each) => name.startsWith(each)))
      .map(({ name, value }) => ({ name, value: SMALLER[name] ?? value }))
      .map(
        ({ name, value }) => `--${name}=${value.startsWith('/') ? onThisMachine(directory, value) : value}`,
      ),
  ];
}

async function administrator(ca: KeyCertificateSigner): Promise<TlsIdentity> {
  const keyPem = generateKeyPem();
  const leaf = {
    commonName: 'admin',
    organization: 'system:masters',
    usages: ['client'],
    names: [],
  } as const;
  return { keyPem, certPem: await ca.issue({ ...leaf, validDays: 1, pubKeyDer: pubKeyDerOf(keyPem) }) };
}

/** Creates a pod in the namespace `default`, which no kubelet ever runs. */
export async function createPod(
  apiServer: Pick<FakeControlPlane, 'create'>,
  { name, privileged }: { readonly name: string; readonly privileged: boolean },
): Promise<Answer> {
  // No controller manager creates the service account here.
  await apiServer.create(`${NAMESPACE}/serviceaccounts`, { metadata: { name: 'default' } });
  const container = { name: 'app', image: 'app', securityContext: { privileged } };
  return apiServer.create(`${NAMESPACE}/pods`, { metadata: { name }, spec: { containers: [container] } });
}

/** The lifetime, in seconds, of a token that the API server gives to a pod, if it is requested as a kubelet does. */
export async function lifetimeOfToken(apiServer: Pick<FakeControlPlane, 'create'>): Promise<number> {
  const pod = { name: 'with-token', privileged: false };
  const { text } = await createPod(apiServer, pod);
  const { metadata } = JSON.parse(text) as { readonly metadata: { readonly uid: string } };
  const boundObjectRef = { kind: 'Pod', apiVersion: 'v1', name: pod.name, uid: metadata.uid };
  const requested = await apiServer.create(`${NAMESPACE}/serviceaccounts/default/token`, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { boundObjectRef, expirationSeconds: KUBELET_TOKEN_SECONDS },
  });
  const { status } = JSON.parse(requested.text) as { readonly status: { readonly token: string } };
  const [, claims = ''] = status.token.split('.');
  const { iat, exp } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as {
    readonly iat: number;
    readonly exp: number;
  };
  return exp - iat;
}

/** Creates events at the same time, and returns the statuses of the answers. */
export async function createEvents(
  apiServer: Pick<FakeControlPlane, 'create'>,
  count: number,
): Promise<readonly number[]> {
  const event = (number: number) =>
    apiServer.create(`${NAMESPACE}/events`, {
      metadata: { name: `event-${number}` },
      involvedObject: { kind: 'Namespace', namespace: 'default', name: 'default' },
      ...{ type: 'Normal', reason: 'Test', message: 'test' },
    });
  const answers = await Promise.all(Array.from({ length: count }, (_, number) => event(number)));
  return answers.map(({ status }) => status);
}
