/**
 * An attacker who runs code as the join service of a live control plane. The attacker has the user,
 * credentials, sockets and access to etcd of that service, and nothing else. The program reads its orders
 * from the standard input and writes one line of JSON for each attack.
 */
import type { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { stdin, stdout } from 'node:process';
import { text } from 'node:stream/consumers';
import { SocketIssuer } from '../../../internal/atls/evidencesocket/index.ts';
import { signDocument } from '../../../internal/ownerdocument/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { generateEd25519Key, kubeconfigStatement, signEd25519 } from '../../../internal/crypto/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { EtcdClient, Namespace, put, remove, type Write } from '../../../internal/etcd/index.ts';
import {
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  pubKeyDerOf,
  verifyCuratorCertificate,
} from '../../../internal/pki/index.ts';
import {
  CLUSTER_PREFIX,
  CONFIGURATION_KEY,
  documentKey,
  records,
  type NodeRecord,
} from '../../../internal/records/index.ts';
import { createClient, localUpgrade, RpcChannel, tlsClientUpgrade } from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { createSignerClient } from '../../../joinservice/testing/index.ts';
import { ForgedMachine } from './forged-machine.ts';
import type {
  CapturedStatement,
  JoinserviceAttackRequest,
  JoinserviceAttackResult,
} from './compromised-joinservice-request.ts';

const CREDENTIALS = '/run/credentials/cluster-joinservice.service';
const SIGNER = 'unix:/run/cluster-signer/signer.sock';
const YEAR_MS = 365 * 24 * 60 * 60_000;
const CONTROL_PLANE: NodeRecord['roles'] = ['ConsensusMember', 'KubernetesController'];
/** Paths of secrets that the join service must not be able to read. */
const SECRETS = [
  '/var/lib/cluster/machine/key.pem',
  '/var/lib/cluster/credentials/curator.key',
  '/var/lib/cluster/ca/ca.key',
  '/var/lib/cluster/consensus/users/root/client.key',
  '/var/lib/cluster-signer/floors.json',
  '/run/credentials/cluster-signer.service/cluster-ca.key',
  '/run/credentials/cluster-signer.service/service-account.key',
  '/run/credentials/cluster-signer.service/encryption.json',
  '/etc/kubernetes/pki/ca.key',
  '/etc/kubernetes/pki/sa.key',
  '/etc/kubernetes/admin.conf',
  '/dev/tpmrm0',
];

const never = new AbortController().signal;
const clock = new SystemClock();
const orders = JSON.parse(await text(stdin)) as JoinserviceAttackRequest;
const credential = (name: string): Promise<string> => readFile(`${CREDENTIALS}/${name}`, 'utf8');
const { clusterId, etcd: at } = JSON.parse(await credential('config.json')) as {
  readonly clusterId: string;
  readonly etcd: { readonly endpoints: [string, ...string[]] };
};
using etcd = new EtcdClient({
  endpoints: at.endpoints,
  identity: { certPem: await credential('etcd.crt'), keyPem: new Secret(await credential('etcd.key')) },
  serverCaPem: await credential('etcd-ca.crt'),
  clock,
});
const space = new Namespace(etcd, CLUSTER_PREFIX);
using channel = new RpcChannel({ endpoint: SIGNER, upgrade: localUpgrade });
const signer = createSignerClient(channel);

const write = (...then: readonly Write[]) => space.commit({ when: [], then }, { signal: never });
const sign = (request: CapturedStatement) =>
  signer.signMember(
    {
      ...request,
      roles: [...request.roles],
      timeMs: BigInt(request.timeMs),
      kubeletClientCsr: bytes(request.kubeletClientCsr),
      kubeletServingCsr: bytes(request.kubeletServingCsr),
      sealingPublicKey: bytes(request.sealingPublicKey),
      session: bytes(request.session),
      signature: bytes(request.signature),
      evidence: request.evidence.map(({ variant, document }) => ({ variant, document: bytes(document) })),
    },
    { signal: never },
  );

/** Runs one attack. Prints what the attack got, or which component refused it and with which error code. */
async function attempt(attack: string, refusedBy: string, work: () => Promise<string>): Promise<void> {
  const outcome: JoinserviceAttackResult = await work().then(
    (got) => ({ attack, got }),
    (error: unknown) => ({ attack, refusedBy, code: codeOf(error) }),
  );
  stdout.write(`${JSON.stringify(outcome)}\n`);
}

function codeOf(error: unknown): string {
  const errno = (error as { readonly code?: unknown } | undefined)?.code;
  return findCoded(error)?.code ?? (typeof errno === 'string' ? errno : String(error));
}

function bytes(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}

/** Writes these records to etcd, runs `work`, and then restores the previous records. */
async function withWritten<T>(writes: readonly Write[], work: () => Promise<T>): Promise<T> {
  const before = await Promise.all(writes.map(({ key }) => space.get(key, { signal: never })));
  try {
    await write(...writes);
    return await work();
  } finally {
    const back = writes.map(({ key }, i) => {
      const entry = before[i];
      return entry === undefined ? remove(key) : put(key, entry.value);
    });
    await write(...back);
  }
}

const own = new ForgedMachine(clusterId);
const eve = generateEd25519Key();
const node = (roles: NodeRecord['roles'], name = 'mallory'): Write =>
  put(records.node.key(own.nodeId), records.node.encode(own.record(name, roles)));
/** A write that makes the configuration accept the attacker's kind of evidence. */
async function lenient(): Promise<Write> {
  const entry = await space.get(CONFIGURATION_KEY, { signal: never });
  if (entry === undefined) throw new TypeError('no configuration');
  const record = records.configuration.decode(CONFIGURATION_KEY, entry.value);
  const text = Buffer.from(record.document, 'base64').toString('utf8');
  const attestation = { variants: ['machine-key'], firstContact: 'fingerprint' };
  const config = { ...(JSON.parse(text) as object), attestation };
  const document = Buffer.from(JSON.stringify(config), 'utf8').toString('base64');
  return put(CONFIGURATION_KEY, records.configuration.encode({ ...record, document }));
}

function forged(kind: 'grant' | 'owners' | 'operators', body: object, name: string | number): Write {
  const nowMs = clock.nowMs();
  const times = { serial: 1_000, epoch: 1_000, issuedMs: nowMs, endsMs: nowMs + YEAR_MS };
  const document = signDocument({ kind, clusterId, ...times, body: body as never }, eve);
  const record = {
    version: 1 as const,
    document: Buffer.from(document).toString('base64'),
    recordedMs: nowMs,
    recordedBy: 'operator:owner',
  };
  return put(documentKey(kind, name), records.document.encode(record));
}

const fingerprint = fingerprintOfKey(pubKeyDerOf(eve));
const operatorRecord = put(
  records.operator.key(fingerprint),
  records.operator.encode({ version: 1, name: 'eve', fingerprint, role: 'owner', createdMs: 1 }),
);
const grant = forged(
  'grant',
  {
    ...{ identity: own.identity, nodeId: own.nodeId, fingerprint: own.fingerprint, roles: CONTROL_PLANE },
    floors: { owners: 0, policy: 0, operators: 0 },
  },
  own.nodeId,
);
const granted = ({ controlPlaneKeys }: { readonly controlPlaneKeys?: unknown }): string =>
  controlPlaneKeys === undefined ? 'a certificate of a worker' : 'the keys of the control plane';

for (const path of SECRETS)
  await attempt(`read ${path}`, 'kernel', async () => `${(await readFile(path)).length} bytes`);
await attempt('evidence for a statement of its own', 'agent', async () => {
  const issuer = new SocketIssuer({ path: '/run/cluster/evidence/evidence.sock', variant: 'tpm' });
  await issuer.issueForSession(Buffer.from('cluster ticket evidence v1\0'), AbortSignal.timeout(5_000));
  return 'evidence';
});
await attempt('the secrets of Kubernetes in etcd', 'etcd', async () => {
  const { entries } = await etcd.list('/registry/secrets/', { signal: never });
  return `${entries.length} secrets`;
});
await attempt('a curator, called with the key of the services', 'curator', async () => {
  const [certPem, caPem] = [await credential('curator.crt'), await credential('cluster-ca.crt')];
  const trust = { caPem, clusterId, nowMs: () => clock.nowMs() };
  using curator = new RpcChannel({
    endpoint: '127.0.0.1:9091',
    upgrade: tlsClientUpgrade({
      clock,
      identity: { certPem, keyPem: new Secret(await credential('curator.key')) },
      accept: (certificate: X509Certificate) => verifyCuratorCertificate(certificate, trust),
    }),
  });
  await createClient(Curator, curator).checkHealth({}, { signal: never, timeoutMs: 5_000 });
  return 'an answer';
});
await attempt('a control plane by a record of its own', 'signer', () =>
  withWritten([node(CONTROL_PLANE)], async () => granted(await sign(await own.ask(CONTROL_PLANE)))),
);
await attempt('the same, and a configuration that takes its evidence', 'signer', async () =>
  withWritten([node(CONTROL_PLANE), await lenient()], async () =>
    granted(await sign(await own.ask(CONTROL_PLANE))),
  ),
);
await attempt('the same, and a grant that it signed itself', 'signer', async () =>
  withWritten([node(CONTROL_PLANE), await lenient(), grant], async () =>
    granted(await sign(await own.ask(CONTROL_PLANE))),
  ),
);
await attempt('the same, and a set of owners that it signed itself', 'signer', async () => {
  const raw = Buffer.from(pubKeyDerOf(eve)).subarray(-32).toString('base64');
  const writes = [node(CONTROL_PLANE), await lenient(), grant, forged('owners', { keys: [raw] }, 1_000)];
  return withWritten(writes, async () => granted(await sign(await own.ask(CONTROL_PLANE))));
});
await attempt('its own key in the record of the control plane', 'signer', async () => {
  const { nodeId } = orders.older;
  const key = records.node.key(nodeId);
  const entry = await space.get(key, { signal: never });
  if (entry === undefined) throw new TypeError('no record');
  const record = { ...records.node.decode(key, entry.value), pubKey: own.pubKey };
  const request = await own.ask(CONTROL_PLANE);
  return withWritten([put(key, records.node.encode(record))], async () =>
    granted(await sign({ ...request, nodeId })),
  );
});
await attempt('a statement of the control plane with another recipient', 'signer', async () =>
  granted(await sign({ ...orders.newer, sealingPublicKey: own.sealingPublicKey })),
);
await attempt('a statement of the control plane with another address', 'signer', async () =>
  granted(await sign({ ...orders.newer, address: '198.18.255.1' })),
);
await attempt('a statement of the control plane with evidence for another one', 'signer', async () =>
  granted(await sign({ ...orders.newer, evidence: orders.older.evidence })),
);
await attempt('a statement of the control plane, passed on as it is', 'signer', async () => {
  const signed = await sign(orders.newer);
  return `${granted(signed)}, sealed to the agent that asked`;
});
await attempt('an older statement of the control plane', 'signer', async () =>
  granted(await sign(orders.older)),
);
await attempt('the certificate of an operator by a record', 'signer', () =>
  withWritten([operatorRecord], async () => {
    const certificateRequest = await createCertificateRequest(eve, 'eve');
    await signer.signOperator({ certificateRequest }, { signal: never });
    return 'the certificate of an operator';
  }),
);
await attempt('the certificate of an operator by a list that it signed itself', 'signer', () =>
  withWritten(
    [operatorRecord, forged('operators', { operators: [{ name: 'eve', fingerprint, role: 'owner' }] }, '')],
    async () => {
      const certificateRequest = await createCertificateRequest(eve, 'eve');
      await signer.signOperator({ certificateRequest }, { signal: never });
      return 'the certificate of an operator';
    },
  ),
);
await attempt('a kubeconfig of an administrator by a record', 'signer', () =>
  withWritten([operatorRecord], async () => {
    const certificateRequest = await createCertificateRequest(generateKeyPem(), 'eve');
    const signature = signEd25519(eve, kubeconfigStatement({ clusterId, certificateRequest }));
    const operatorPublicKey = pubKeyDerOf(eve);
    await signer.signKubeconfig({ certificateRequest, operatorPublicKey, signature }, { signal: never });
    return 'the credential of an administrator';
  }),
);
await attempt('the address of the control plane for a worker of its own', 'signer', async () =>
  withWritten([node(['KubernetesWorker']), await lenient()], async () =>
    granted(await sign(await own.ask(['KubernetesWorker'], orders.older.address))),
  ),
);
await attempt('the name of the control plane for a worker of its own', 'signer', async () =>
  withWritten([node(['KubernetesWorker'], 'n1'), await lenient()], async () =>
    granted(await sign(await own.ask(['KubernetesWorker']))),
  ),
);
await attempt('a worker of its own', 'nobody', async () =>
  withWritten([node(['KubernetesWorker']), await lenient()], async () =>
    granted(await sign(await own.ask(['KubernetesWorker']))),
  ),
);
