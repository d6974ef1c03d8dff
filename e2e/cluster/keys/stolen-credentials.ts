import { sign } from 'node:crypto';
import { request } from 'node:https';
import { SystemClock } from '../../../internal/clock/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import { generateKeyPem, KeyCertificateSigner, nodeLeaf, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { createClient, RpcChannel, tlsClientUpgrade } from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { StoryCluster } from '../harness/story-cluster.ts';

const ISSUER = 'https://kubernetes.default.svc.cluster.local';
const CONSENSUS = '/var/lib/cluster/consensus';
const PKI = '/etc/kubernetes/pki';

/** The keys and certificates on a control plane's disk that an attacker can use. */
const STOLEN = {
  etcdClients: `${CONSENSUS}/kubernetes/clients/ca`,
  etcdPeers: `${CONSENSUS}/kubernetes/peers/ca`,
  etcdRoot: `${CONSENSUS}/kubernetes/users/root/client`,
  stateClients: `${CONSENSUS}/state/clients/ca`,
  statePeers: `${CONSENSUS}/state/peers/ca`,
  stateRoot: `${CONSENSUS}/state/users/root/client`,
  kubernetes: `${PKI}/ca`,
  frontProxy: `${PKI}/front-proxy-ca`,
  toKubelets: `${PKI}/apiserver-kubelet-client`,
  cluster: '/var/lib/cluster/ca/ca',
} as const;

interface Credential {
  readonly cert?: string;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

interface Pair {
  readonly certPem: string;
  readonly keyPem: Secret<string>;
}

/**
 * An attacker with a copy of a control plane's disk. The attacker forges credentials with the copied CA keys and
 * tries these credentials at endpoints.
 */
export class CredentialThief {
  readonly #credentials: Readonly<Record<string, Credential>>;
  readonly #cluster: Pair;
  readonly #servers: Pair;
  readonly #clusterId: string;

  private constructor(
    credentials: Readonly<Record<string, Credential>>,
    of: { cluster: Pair; servers: Pair; clusterId: string },
  ) {
    this.#credentials = credentials;
    this.#cluster = of.cluster;
    this.#servers = of.servers;
    this.#clusterId = of.clusterId;
  }

  /**
   * Copies the keys of a running machine. Forges all credentials now, so that none is made with a key of a
   * later rotation.
   */
  static async of(cluster: StoryCluster, machine: string): Promise<CredentialThief> {
    const pair = async (path: string): Promise<Pair> => ({
      certPem: `${await cluster.run(machine, 'cat', `${path}.crt`)}\n`,
      keyPem: new Secret(`${await cluster.run(machine, 'cat', `${path}.key`)}\n`),
    });
    const stolen = Object.fromEntries(
      await Promise.all(
        Object.entries(STOLEN).map(async ([name, path]) => [name, await pair(path)] as const),
      ),
    ) as Record<keyof typeof STOLEN, Pair>;
    const account = ['-n', 'kube-system', 'serviceaccount', 'namespace-controller'];
    const uid = await cluster.run(machine, 'kubectl', 'get', ...account, '-o', 'jsonpath={.metadata.uid}');
    const tokenKey = new Secret(await cluster.run(machine, 'cat', `${PKI}/sa.key`));
    const admin = await issue(stolen.kubernetes, { commonName: 'thief', organization: 'system:masters' });
    const proxy = await issue(stolen.frontProxy, { commonName: 'front-proxy-client' });
    const plain = ({ certPem, keyPem }: Pair): Credential => ({ cert: certPem, key: keyPem.reveal() });
    const credentials = {
      'etcd root, as copied': plain(stolen.etcdRoot),
      'etcd root, forged': await issue(stolen.etcdClients, { commonName: 'root' }),
      'etcd peer, forged': await issue(stolen.etcdPeers, { commonName: 'n3' }),
      'state etcd root, as copied': plain(stolen.stateRoot),
      'state etcd root, forged': await issue(stolen.stateClients, { commonName: 'root' }),
      'state etcd peer, forged': await issue(stolen.statePeers, { commonName: 'n3' }),
      'kubelet client, as copied': plain(stolen.toKubelets),
      'administrator, forged': admin,
      'front proxy, forged': {
        ...proxy,
        headers: { 'x-remote-user': 'thief', 'x-remote-group': 'system:masters' },
      },
      'token, forged': { headers: { authorization: `Bearer ${tokenOf(tokenKey, uid)}` } },
    };
    const membership = await cluster.run(machine, 'cat', '/var/lib/cluster/membership/membership.json');
    const [, clusterId = ''] = /"clusterId": *"([0-9a-f]+)"/.exec(membership) ?? [];
    const { cluster: ofCluster, kubernetes: servers } = stolen;
    return new CredentialThief(credentials, { cluster: ofCluster, servers, clusterId });
  }

  /** Tries the credentials at every endpoint of a control plane: a line "ENDPOINT of HOST, CREDENTIAL: ANSWER" for each. */
  async atControlPlane(host: string): Promise<readonly string[]> {
    const endpoints = [
      ['etcd clients', 2379, '/version', ['etcd root, as copied', 'etcd root, forged']],
      ['etcd peers', 2380, '/version', ['etcd peer, forged']],
      ['state etcd clients', 2382, '/version', ['state etcd root, as copied', 'state etcd root, forged']],
      ['state etcd peers', 2383, '/version', ['state etcd peer, forged']],
      [
        'API server',
        6443,
        '/api/v1/namespaces/kube-system/secrets',
        ['kubelet client, as copied', 'administrator, forged', 'front proxy, forged'],
      ],
      ['API server', 6443, '/api/v1/namespaces', ['token, forged']],
    ] as const;
    const answers = endpoints.flatMap(([endpoint, port, path, names]) =>
      names.map((name) => this.#show({ endpoint, host, port, path }, name)),
    );
    return Promise.all([...answers, ...this.#atKubelet(host), this.#atCurator(host)]);
  }

  atWorker(host: string): Promise<readonly string[]> {
    return Promise.all(this.#atKubelet(host));
  }

  #atKubelet(host: string): readonly Promise<string>[] {
    const at = { endpoint: 'kubelet', host, port: 10250, path: '/pods' };
    return ['kubelet client, as copied', 'administrator, forged'].map((name) => this.#show(at, name));
  }

  async #show(
    at: { readonly endpoint: string; readonly host: string; readonly port: number; readonly path: string },
    name: string,
  ): Promise<string> {
    return `${at.endpoint} of ${at.host}, ${name}: ${await tryCredential(at, this.#credentials[name] ?? {})}`;
  }

  /** A certificate with which somebody with the copy could pose as any control plane, and its key. */
  async controlPlaneCertificate(
    host: string,
  ): Promise<{ readonly certPem: string; readonly keyPem: Secret<string> }> {
    const keyPem = generateKeyPem();
    const clusterId = this.#clusterId;
    const leaf = { clusterId, pubKeyDer: pubKeyDerOf(keyPem), addresses: [host], isControlPlane: true };
    return { certPem: await signerOf(this.#cluster).issue(nodeLeaf(leaf)), keyPem };
  }

  /** A certificate with which somebody with the copy could pose as the API server at this address, and its key. */
  async apiServerCertificate(host: string): Promise<{ readonly cert: string; readonly key: string }> {
    const keyPem = generateKeyPem();
    const names = [{ type: 'ip', value: host }] as const;
    const leaf = { commonName: 'kube-apiserver', usages: ['server'], names, validDays: 30 } as const;
    const cert = await signerOf(this.#servers).issue({ ...leaf, pubKeyDer: pubKeyDerOf(keyPem) });
    return { cert, key: keyPem.reveal() };
  }

  /** The stolen certificate of the cluster CA. */
  get clusterCaPem(): string {
    return this.#cluster.certPem;
  }

  /**
   * A curator compares the client's key with the node record, so it refuses a forged certificate of the right CA. It closes the
   * connection of a client with a certificate of another CA.
   */
  async #atCurator(host: string): Promise<string> {
    const keyPem = generateKeyPem();
    const clusterId = this.#clusterId;
    const leaf = nodeLeaf({ clusterId, pubKeyDer: pubKeyDerOf(keyPem), addresses: [] });
    const certPem = await signerOf(this.#cluster).issue(leaf);
    using channel = new RpcChannel({
      endpoint: `${host}:9091`,
      upgrade: tlsClientUpgrade({
        clock: new SystemClock(),
        identity: { certPem, keyPem },
        accept: () => 'anybody',
      }),
    });
    const name = `curator of ${host}, node, forged`;
    try {
      const { signal } = new AbortController();
      await createClient(Curator, channel).checkHealth({}, { signal, timeoutMs: 5000 });
      return `${name}: accepted`;
    } catch (error) {
      const code = error instanceof CodedError ? String(error.code) : String(error);
      const isClosed = code === 'rpc-unreachable' && channel.peer !== undefined;
      return `${name}: ${code === 'curator-not-member' || isClosed ? `refused (${code})` : code}`;
    }
  }
}

function signerOf({ certPem, keyPem }: Pair): KeyCertificateSigner {
  return new KeyCertificateSigner({ caPem: certPem, keyPem, nowMs: () => Date.now() });
}

async function issue(
  ca: Pair,
  subject: { readonly commonName: string; readonly organization?: string },
): Promise<Credential> {
  const keyPem = generateKeyPem();
  const cert = await signerOf(ca).issue({
    ...subject,
    pubKeyDer: pubKeyDerOf(keyPem),
    usages: ['server', 'client'],
    names: [],
    validDays: 30,
  });
  return { cert, key: keyPem.reveal() };
}

function tokenOf(keyPem: Secret<string>, uid: string): string {
  const [namespace, name] = ['kube-system', 'namespace-controller'];
  const nowSeconds = Math.floor(Date.now() / 1000);
  const encode = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
  const claims = {
    ...{ iss: ISSUER, aud: [ISSUER], sub: `system:serviceaccount:${namespace}:${name}` },
    ...{ iat: nowSeconds, nbf: nowSeconds, exp: nowSeconds + 7 * 24 * 3600 },
    'kubernetes.io': { namespace, serviceaccount: { name, uid } },
  };
  const signed = `${encode({ alg: 'ES256', typ: 'JWT' })}.${encode(claims)}`;
  const signature = sign('sha256', Buffer.from(signed), {
    key: keyPem.reveal(),
    dsaEncoding: 'ieee-p1363',
  });
  return `${signed}.${signature.toString('base64url')}`;
}

/** Returns "accepted"; "refused (REASON)" if the server does not trust the credential; or another error. */
function tryCredential(
  at: { readonly host: string; readonly port: number; readonly path: string },
  credential: Credential,
): Promise<string> {
  return new Promise((resolve) => {
    const { host, port, path } = at;
    const options = { host, port, path, rejectUnauthorized: false, agent: false, timeout: 5000 };
    const asked = request({ ...options, ...credential }, ({ statusCode = 0 }) => {
      asked.destroy();
      if (statusCode === 200) resolve('accepted');
      else resolve(statusCode === 401 ? 'refused (HTTP 401)' : `HTTP ${statusCode}`);
    });
    asked.once('timeout', () => asked.destroy(new Error('no answer')));
    asked.once('error', (error: NodeJS.ErrnoException) =>
      resolve(
        /ALERT_UNKNOWN_CA/.test(error.code ?? '') ? 'refused (unknown CA)' : (error.code ?? error.message),
      ),
    );
    asked.end();
  });
}
