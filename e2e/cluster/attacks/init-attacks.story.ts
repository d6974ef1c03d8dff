import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync, randomBytes, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { InitApi } from '../../../initproto/gen/init_pb.js';
import {
  atlsServerUpgrade,
  REJECT_ALL_RULES,
  RotatingKeys,
  type AttestedPeer,
} from '../../../internal/atls/index.ts';
import {
  answerChallenge,
  decodeChallenge,
  encodeEnrolmentRequest,
  readEnrolmentRequest,
} from '../../../internal/attestation/enrolment/index.ts';
import { MachineKeyIssuer, proveKey } from '../../../internal/attestation/machinekey/index.ts';
import {
  OwnerKeyIssuer,
  OwnerKeyValidator,
  rawFromOwnerKey,
} from '../../../internal/attestation/ownerkey/index.ts';
import { createTpmIssuer } from '../../../internal/attestation/tpm/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { createLogger } from '../../../internal/logging/index.ts';
import { implement, RpcServer, type Handlers } from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import {
  createTestIdentity,
  RawAtls,
  rawEvidence,
  rawFrame,
  rawHello,
} from '../../../internal/testing/atls/index.ts';
import { createSwtpmFactory } from '../../../internal/testing/tpm/swtpm.ts';
import type { Tpm } from '../../../internal/tpm/index.ts';
import { reportRefused } from '../../attack-report.ts';
import { createHarness } from '../../machines/harness.ts';
import { eventually, machineWithoutCluster } from '../harness/node-shell.ts';

const PORT = 9000;
const CONTEXT = 'cluster/init/v1';
const [OWNER, TPM] = [1, 2];
const [READY, ALERT] = [rawFrame(3, new Uint8Array(0)), 15];
const never = new AbortController().signal;

await test('attacks on the init port of a real machine and on the CLI of its owner', async (story) => {
  await using bench = await createHarness();
  await using stack = new AsyncDisposableStack();
  const { address, fingerprint, workspace, node } = await machineWithoutCluster(bench, 'atlsport');
  const ownerPem = await readFile(join(workspace, 'owner-key.pem'), 'utf8');
  const owner = new OwnerKeyIssuer({ privKey: new Secret(createPrivateKey(ownerPem)) });
  const untrustedOwner = new OwnerKeyIssuer({ privKey: new Secret(newKey()) });
  const identity = await createTestIdentity();

  const dial = async (): Promise<Socket> => {
    const socket = connect(PORT, address);
    await once(socket, 'connect');
    return socket.on('error', () => undefined);
  };
  const open = async (): Promise<RawAtls> => RawAtls.open(await dial(), { role: 'client', identity });

  /** Sends HELLO as a client, and returns it with the binding for the client's evidence. */
  async function greet(raw: RawAtls, accepts: readonly number[] = [TPM]) {
    const own = rawHello(accepts, randomBytes(32));
    raw.send(own);
    const theirs = (await raw.receive())!;
    return { own, binding: raw.binding('client', CONTEXT, own, theirs.bytes) };
  }

  /** Number of refused connections that earlier calls of `refusals` have read from the machine's log. */
  let seen = 0;
  async function refusals(): Promise<string> {
    const log = await node.run('journalctl', '-u', 'bootstrapper', '--no-pager', '-o', 'cat');
    const lines = log.split('\n').filter((line) => line.includes('connection refused'));
    const fresh = lines.slice(seen).join('\n');
    seen = lines.length;
    return fresh;
  }
  const refusedFor = (code: string): Promise<string> => {
    let all = '';
    const ask = async (): Promise<string> => (all += await refusals());
    return eventually(`the log of the machine has ${code}`, 30, ask, (text) => text.includes(`"${code}`));
  };

  await story.test(
    "the machine accepts the owner's evidence, and sends its own evidence only after that",
    async () => {
      const raw = await open();
      const { binding } = await greet(raw);
      raw.send(rawEvidence(OWNER, await owner.issue(binding, never)));
      const [evidence, ready] = [await raw.receive(), await raw.receive()];
      assert.deepEqual([evidence?.type, ready?.type], [2, 3]);
      assert.equal(evidence?.body.readUInt16BE(0), TPM);
      raw.tls.destroy();
      await refusals();
    },
  );

  const refused: readonly {
    readonly name: string;
    readonly code: string;
    readonly alert: number | 'closed';
    readonly attack: () => Promise<RawAtls>;
  }[] = [
    {
      name: 'the evidence of another owner',
      code: 'owner-key-unknown',
      alert: 4,
      attack: async () => {
        const raw = await open();
        const { binding } = await greet(raw);
        raw.send(rawEvidence(OWNER, await untrustedOwner.issue(binding, never)));
        return raw;
      },
    },
    {
      name: 'the owner’s key with a signature over another session',
      code: 'owner-key-signature',
      alert: 4,
      attack: async () => {
        const raw = await open();
        await greet(raw);
        raw.send(rawEvidence(OWNER, await owner.issue(randomBytes(64), never)));
        return raw;
      },
    },
    {
      name: 'a replay of all that an accepted owner said',
      code: 'owner-key-signature',
      alert: 4,
      attack: async () => {
        const first = await open();
        const { own, binding } = await greet(first);
        const evidence = rawEvidence(OWNER, await owner.issue(binding, never));
        first.send(evidence);
        assert.equal((await first.receive())?.type, 2);
        first.tls.destroy();
        const raw = await open();
        raw.send(own, evidence);
        return raw;
      },
    },
    {
      name: 'no evidence',
      code: 'atls-evidence-format',
      alert: 1,
      attack: async () => {
        const raw = await open();
        await greet(raw);
        raw.send(rawEvidence(0, new Uint8Array(0)));
        return raw;
      },
    },
    {
      name: 'a READY in place of evidence',
      code: 'atls-frame-order',
      alert: 1,
      attack: async () => {
        const raw = await open();
        await greet(raw);
        raw.send(READY);
        return raw;
      },
    },
    {
      name: 'one who wants no evidence in return',
      code: 'atls-no-common-format',
      alert: 7,
      attack: async () => {
        const raw = await open();
        raw.send(rawHello([0], randomBytes(32)));
        return raw;
      },
    },
    {
      name: 'the machine’s own hello, played back',
      code: 'atls-reflection',
      alert: 1,
      attack: async () => {
        const raw = await open();
        raw.send((await raw.receive())!.bytes);
        return raw;
      },
    },
    {
      name: 'gRPC before anything is proved',
      code: 'atls-frame-version',
      alert: 1,
      attack: async () => {
        const raw = await open();
        raw.send(Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'));
        return raw;
      },
    },
    {
      name: 'one who says nothing',
      code: 'atls-timeout',
      alert: 3,
      attack: () => open(),
    },
  ];
  for (const { name, code, alert, attack } of refused) {
    await story.test(
      `${name} is refused, and the attacker learns only the number of the alert`,
      async (step) => {
        using raw = await attack();
        const learned: number[] = [];
        let said: number | undefined;
        for (let frame = await raw.receive(); frame !== undefined; frame = await raw.receive()) {
          learned.push(frame.type);
          if (frame.type === ALERT) said = frame.body[0];
        }
        assert.equal(said ?? 'closed', alert);
        // The attacker receives only HELLO (unless it was read before) and the alert: no evidence, gRPC message
        // or log line.
        assert.ok(
          learned.every((type) => type === 1 || type === ALERT),
          learned.join(),
        );
        await refusedFor(code);
        reportRefused(step, name, 'the machine', code);
      },
    );
  }

  await story.test("plain TLS with the owner's key in the certificate is refused", async (step) => {
    const plain = async (alpn: readonly string[]): Promise<string> => {
      const tls: TLSSocket = connectTls({
        socket: await dial(),
        cert: identity.certPem,
        key: identity.keyPem,
        minVersion: 'TLSv1.3',
        rejectUnauthorized: false,
        ALPNProtocols: [...alpn],
      });
      let bytes = 0;
      tls.on('data', (chunk: Buffer) => (bytes += chunk.length)).on('error', () => undefined);
      tls.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
      await new Promise((resolve) => tls.once('close', resolve));
      return `${bytes}`;
    };
    assert.equal(await plain(['h2']), '0');
    await refusedFor('atls-tls-alpn');
    reportRefused(step, "plain TLS with the owner's key", 'the machine', 'atls-tls-alpn');
  });

  await story.test('after all attacks the machine has no node lock', async () => {
    assert.equal(await node.exitCode('test', '-e', '/var/lib/cluster/enrolment/lock.json'), 1);
  });

  /** Runs `cluster init` against a server at this address. */
  const init = (at: string) =>
    bench.cli('--workspace', workspace, 'init', '--node', at, '--fingerprint', fingerprint);

  /** Starts a server that accepts connections of the CLI and passes each to the attacker. */
  async function relay(pass: (tcp: Socket) => Promise<void>): Promise<string> {
    const server = createServer(
      (tcp) => void pass(tcp.on('error', () => undefined)).catch(() => tcp.destroy()),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    stack.defer(() => void server.close());
    return `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  await story.test('the machine refuses a relay that forwards the frames of the owner', async (step) => {
    const at = await relay(async (tcp) => {
      const far = await open();
      const near = await RawAtls.open(tcp, { role: 'server', identity: await createTestIdentity() });
      near.forwardTo(far);
      far.forwardTo(near);
    });
    const { code, stderr } = await init(at);
    assert.equal(code, 4, stderr);
    assert.match(stderr, /cluster-owner-refused/);
    await refusedFor('owner-key-signature');
    reportRefused(step, 'relay the frames of the owner', 'the machine', 'owner-key-signature');
  });

  await story.test(
    'the CLI refuses another machine that has a genuine TPM and implements the whole protocol',
    async (t) => {
      const factory = stack.use(await createSwtpmFactory());
      const tpm = stack.use(stack.use(await factory.start()).open());
      const at = await startUntrustedMachine({ tpm, ownerPem, stack });
      await t.test('with --fingerprint, because the fingerprint differs', async (step) => {
        const { code, stderr } = await init(at);
        assert.equal(code, 4, stderr);
        assert.match(stderr, /cluster-other-machine/);
        reportRefused(step, 'another machine in place of the named one', 'the CLI', 'cluster-other-machine');
      });
      await t.test(
        'without --fingerprint, because the manufacturer of its TPM is not trusted',
        async (step) => {
          const { code, stderr } = await bench.cli('--workspace', workspace, 'init', '--node', at);
          assert.equal(code, 4, stderr);
          assert.match(stderr, /x509-/);
          const [code509 = ''] = /x509-[a-z-]+/.exec(stderr) ?? [];
          reportRefused(step, 'a machine with a TPM of another manufacturer', 'the CLI', code509);
        },
      );
    },
  );

  await story.test('the CLI refuses a machine key when the configuration requires a TPM', async (step) => {
    const key = new MachineKeyIssuer({ privKey: new Secret(newKey()) });
    const at = await relay(async (tcp) => {
      const raw = await RawAtls.open(tcp, { role: 'server', identity: await createTestIdentity() });
      const hello = (await raw.receive())!;
      const own = rawHello([OWNER], randomBytes(32));
      raw.send(own);
      await raw.receive();
      const binding = raw.binding('server', CONTEXT, hello.bytes, own);
      raw.send(rawEvidence(7, await key.issue(binding, never)), READY);
    });
    const { code, stderr } = await init(at);
    assert.equal(code, 4, stderr);
    assert.match(stderr, /atls-evidence-format/);
    reportRefused(step, 'a machine without a TPM', 'the CLI', 'atls-evidence-format');
  });
});

/**
 * Starts Mallory's machine. Nobody trusts the manufacturer of its TPM; everything else is like an honest
 * machine.
 */
async function startUntrustedMachine(has: {
  readonly tpm: Tpm;
  readonly ownerPem: string;
  readonly stack: AsyncDisposableStack;
}): Promise<string> {
  const { tpm, ownerPem, stack } = has;
  const clock = new SystemClock();
  const privKey = new Secret(newKey());
  const owner = rawFromOwnerKey(createPrivateKey(ownerPem)); // not a secret: every provisioned machine has this public key
  const refuse = (): Promise<never> => Promise.reject(new Error('the owner went on'));
  const handlers: Handlers<typeof InitApi, AttestedPeer> = {
    describe: async (_request, { peer }) => ({
      agentVersion: '0.1.0',
      architecture: 'amd64',
      enrolmentState: 'New',
      nowMs: BigInt(clock.nowMs()),
      key: proveKey('cluster/init/key/v1', peer.session, privKey),
    }),
    readEnrolment: async (_request, { signal }) => ({
      enrolment: encodeEnrolmentRequest(await readEnrolmentRequest({ tpm }, signal)),
    }),
    answerChallenge: async ({ challenge }, { peer, signal }) => ({
      answer: await answerChallenge({ tpm }, decodeChallenge(challenge), peer.session, signal),
    }),
    preflight: refuse,
    statBlobs: refuse,
    uploadBlob: refuse,
    init: () => {
      throw new Error('the owner went on');
    },
    acknowledge: refuse,
  };
  const server = stack.use(
    new RpcServer<AttestedPeer>({
      clock,
      upgrade: atlsServerUpgrade({
        trust: {
          trust: 'mutual',
          shows: [createTpmIssuer({ tpm, pcrs: Array.from({ length: 16 }, (_, pcr) => pcr) })],
          accepts: [new OwnerKeyValidator({ ownerKeys: [owner] })],
          rules: () => REJECT_ALL_RULES,
        },
        context: CONTEXT,
        keys: new RotatingKeys({ clock }),
        clock,
      }),
      services: [implement(InitApi, handlers)],
      disclose: 'code',
      log: createLogger({ path: 'untrusted-machine', nowMs: () => clock.nowMs(), sink: () => undefined }),
    }),
  );
  return `127.0.0.1:${await server.listen('127.0.0.1', 0)}`;
}

function newKey(): KeyObject {
  return generateKeyPairSync('ed25519').privateKey;
}
