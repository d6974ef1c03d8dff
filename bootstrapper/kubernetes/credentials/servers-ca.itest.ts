import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { createPublicKey } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createServersCa, type RotatingPair } from '../../../internal/keyset/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';
import { findFreePort, programOfBundle, TestEtcd, untilServing } from '../../../internal/testing/index.ts';

/**
 * A real API server with the certificates of a rotation of its CA, and three TLS implementations as clients: kubectl (Go), OpenSSL and
 * Node. Each trusts the previous CA, the next one, or both.
 */
const nowMs = (): number => Date.now();
const READY_MS = 90_000;
const POLL_MS = 250;
const TRUSTS = ['previous', 'next', 'both'] as const;
const CLIENTS = ['kubectl', 'openssl', 'node'] as const;
type Trust = (typeof TRUSTS)[number];

let directory: string;
let etcd: TestEtcd;
let apiServer: ChildProcess;
let kubectl: string;
let port: number;
let output = '';
let previous: RotatingPair;
let next: RotatingPair;
const servingKey = generateKeyPem();
const at = (name: string): string => join(directory, name);

async function createFirst(pathLength: 0 | 1): Promise<RotatingPair> {
  const key = generateKeyPem();
  const ca = { commonName: 'kubernetes', keyPem: key, nowMs: nowMs(), pathLength };
  return { public: await createCaCertPem(ca), private: key };
}

/** The certificate of the API server, as its CA of this generation issues it. */
async function present({ public: caPem, private: keyPem, cross: crossPem }: RotatingPair): Promise<void> {
  const signer = new KeyCertificateSigner({ caPem, keyPem, crossPem, nowMs });
  const leaf = { commonName: 'kube-apiserver', usages: ['server'], validDays: 1 } as const;
  const names = [{ type: 'ip', value: '127.0.0.1' }] as const;
  const chain = await signer.issue({ ...leaf, names, pubKeyDer: pubKeyDerOf(servingKey) });
  await writeFile(at('apiserver.crt'), chain);
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cluster-servers-ca-'));
  previous = await createFirst(1);
  next = await createServersCa(2, nowMs(), previous);
  etcd = await TestEtcd.create();
  const member = await etcd.startMember('one');
  await untilServing(await etcd.connect('root', member.endpoint));
  const client = await etcd.clientFiles('apiserver');
  const trusts = { previous: previous.public, next: next.public, both: `${previous.public}${next.public}` };
  const files = {
    ...{ 'etcd-ca.crt': client.caPem, 'etcd.crt': client.certPem, 'etcd.key': client.keyPem.reveal() },
    ...{ 'sa.key': servingKey.reveal(), 'apiserver.key': servingKey.reveal() },
    'sa.pub': createPublicKey(servingKey.reveal()).export({ type: 'spki', format: 'pem' }).toString(),
    ...Object.fromEntries(TRUSTS.map((trust) => [`${trust}.pem`, trusts[trust]])),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(at(name), text, { mode: 0o600 });
  await present(previous);
  kubectl = await programOfBundle('kubectl', directory);
  port = await findFreePort();
  apiServer = spawn(
    await programOfBundle('kube-apiserver', directory),
    [
      `--etcd-servers=https://${member.endpoint}`,
      `--etcd-cafile=${at('etcd-ca.crt')}`,
      `--etcd-certfile=${at('etcd.crt')}`,
      `--etcd-keyfile=${at('etcd.key')}`,
      '--authorization-mode=AlwaysAllow',
      '--anonymous-auth=false',
      '--bind-address=127.0.0.1',
      `--secure-port=${port}`,
      `--tls-cert-file=${at('apiserver.crt')}`,
      `--tls-private-key-file=${at('apiserver.key')}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${at('sa.pub')}`,
      `--service-account-signing-key-file=${at('sa.key')}`,
      '--service-cluster-ip-range=10.96.0.0/16',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  apiServer.stderr?.on('data', (part: Buffer) => (output = (output + part.toString('utf8')).slice(-20_000)));
  await until('the API server starts', async () => (await ask.node('previous')) === 'accepted');
}, 150_000);

afterAll(async () => {
  if (apiServer.exitCode === null) {
    apiServer.kill('SIGKILL');
    await once(apiServer, 'exit');
  }
  await etcd[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
}, 30_000);

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const endMs = nowMs() + READY_MS;
  while (!(await isSo())) {
    if (apiServer.exitCode !== null || nowMs() > endMs) throw new Error(`${what}: ${output}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const run = promisify(execFile);
async function outcomeOf(argv: readonly [string, ...string[]]): Promise<string> {
  const [program, ...args] = argv;
  try {
    const running = run(program, args, {
      timeout: 20_000,
      env: { PATH: process.env['PATH'] ?? '', HOME: directory },
    });
    running.child.stdin?.end(); // openssl exits when its input ends
    await running;
    return 'accepted';
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    const isRefusal = /unknown authority|path length constraint|[Vv]erif(y|ication) error/.test(
      stdout + stderr,
    );
    return isRefusal ? 'refused' : `failed: ${stdout}${stderr}`.slice(0, 400);
  }
}

const ask: Readonly<Record<(typeof CLIENTS)[number], (trust: Trust) => Promise<string>>> = {
  kubectl: (trust) =>
    outcomeOf([
      kubectl,
      `--server=https://127.0.0.1:${port}`,
      `--certificate-authority=${at(`${trust}.pem`)}`,
      ...['--token=none', 'get', '--raw', '/livez/ping'],
    ]).then((text) => (text.includes('Unauthorized') ? 'accepted' : text)),
  openssl: (trust) =>
    outcomeOf([
      ...(['openssl', 's_client', '-connect', `127.0.0.1:${port}`, '-verify_ip', '127.0.0.1'] as const),
      ...[
        '-CAfile',
        at(`${trust}.pem`),
        '-no-CApath',
        '-no-CAstore',
        '-verify_return_error',
        '-quiet',
        '-no_ign_eof',
      ],
    ]),
  node: async (trust) => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const ca = await readFile(at(`${trust}.pem`), 'utf8');
    request({ host: '127.0.0.1', port, path: '/livez/ping', ca, agent: false, timeout: 5_000 }, (answer) => {
      answer.resume();
      resolve('accepted');
    })
      .on('error', ({ code = '' }: NodeJS.ErrnoException) =>
        resolve(/CERT|ISSUER|SELF_SIGNED|VERIFY/.test(code) ? 'refused' : `failed: ${code}`),
      )
      .end();
    return promise;
  },
};

async function outcomes(): Promise<Record<string, string>> {
  const rows = CLIENTS.flatMap((client) => TRUSTS.map((trust) => [client, trust] as const));
  const found = await Promise.all(rows.map(async ([client, trust]) => ask[client](trust)));
  return Object.fromEntries(
    rows.map(([client, trust], index) => [`${client}, ${trust}`, found[index] ?? '']),
  );
}

const expected = (of: Readonly<Record<Trust, string>>): Record<string, string> =>
  Object.fromEntries(CLIENTS.flatMap((client) => TRUSTS.map((trust) => [`${client}, ${trust}`, of[trust]])));

test('clients that trust the previous CA, the next one or both accept an API server with the cross-certificate', async () => {
  await present(next);
  await until(
    'the API server shows its new certificate',
    async () => (await ask.node('next')) === 'accepted',
  );
  expect(await outcomes()).toEqual(expected({ previous: 'accepted', next: 'accepted', both: 'accepted' }));
}, 150_000);

test('clients that trust only the next CA refuse a server that a copy of the previous key has forged', async () => {
  await present(previous);
  await until('the server shows the forged certificate', async () => (await ask.node('next')) === 'refused');
  expect(await outcomes()).toEqual(expected({ previous: 'accepted', next: 'refused', both: 'accepted' }));
  // The cross-certificate does not help an attacker who has only the previous CA's key, because it is for the next CA's
  // key.
  await present({ ...previous, cross: next.cross });
  expect(await ask.kubectl('next')).toBe('refused');
}, 150_000);
