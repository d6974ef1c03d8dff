import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness, type Harness } from '../../machines/harness.ts';
import { eventually, kubeletConfiguration, NodeShell } from '../harness/node-shell.ts';

const NAME = 'joins';
const SECONDS = 1000;

/** Reads a worker's state from the agent's socket and from its log. */
class Worker {
  readonly #bench: Harness;
  constructor(bench: Harness) {
    this.#bench = bench;
  }

  async run(...argv: readonly string[]): Promise<string> {
    return (await this.#bench.must('mini', 'exec', '--name', NAME, 'n2', '--', ...argv)).trim();
  }

  log(): Promise<string> {
    return this.run('journalctl', '-u', 'bootstrapper', '--no-pager', '-o', 'cat');
  }

  async killAgent(): Promise<void> {
    await this.run('systemctl', 'kill', '--signal', 'KILL', 'bootstrapper');
  }

  /** Expiry of the node's certificate, in ms. */
  async notAfterMs(): Promise<number> {
    const text = await this.run('cat', '/var/lib/cluster/credentials/node.crt');
    const { X509Certificate } = await import('node:crypto');
    return Date.parse(new X509Certificate(text).validTo);
  }

  nodeId(): Promise<string> {
    return this.run('sh', '-c', 'sha256sum /var/lib/cluster/machine/key.pem');
  }
}

await test('a worker joins while its agent is killed, renews its certificates, and recovers after they expired', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1');
  const first = new NodeShell(bench, NAME);
  const worker = new Worker(bench);

  await story.test('certificates are valid for two minutes, as the configuration says', async () => {
    const got = await first.etcdctl('root', 'get', '--print-value-only', '/cluster/configuration/current');
    assert.equal(got.code, 0, got.stderr);
    const record = JSON.parse(got.stdout) as { document: string };
    const document = JSON.parse(Buffer.from(record.document, 'base64').toString('utf8')) as object;
    const changed = { ...document, certificates: { nodeMinutes: 2, kubeletMinutes: 30 } };
    const value = {
      ...record,
      document: Buffer.from(JSON.stringify(changed), 'utf8').toString('base64'),
    };
    const put = await first.etcdctl('root', 'put', '/cluster/configuration/current', JSON.stringify(value));
    assert.equal(put.code, 0, put.stderr);
  });

  let key = '';
  await story.test(
    'the machine waits for approval and shows its fingerprint, also after its agent was killed',
    async () => {
      await bench.must(
        'mini',
        'up',
        '--nodes-only',
        '--name',
        NAME,
        '--control-planes',
        '1',
        '--workers',
        '1',
      );
      const waits = /waiting for admission.*join-awaiting-approval.*sha256:[0-9a-f]{64}/;
      await eventually(
        'the machine waits',
        60,
        () => worker.log(),
        (log) => waits.test(log),
      );
      key = await worker.nodeId();
      await worker.killAgent();
      await eventually(
        'the machine waits again',
        60,
        () => worker.log(),
        (log) => log.split(waits).length > 2,
      );
      assert.equal(await worker.nodeId(), key);
    },
  );

  await story.test(
    'an approved machine becomes one member with the same key, although its agent is killed repeatedly',
    async () => {
      const up = bench.cli('mini', 'up', '--name', NAME);
      for (let kill = 0; kill < 6; kill++) {
        await worker.killAgent();
        await eventually(
          'the agent is back',
          30,
          () => worker.run('systemctl', 'is-active', 'bootstrapper'),
          (state) => state === 'active',
        );
      }
      const { code, stderr } = await up;
      assert.equal(code, 0, stderr);
      assert.equal(await worker.nodeId(), key);
      const nodes = await first.etcdctl('root', 'get', '--prefix', '--keys-only', '/cluster/nodes/');
      assert.equal(nodes.stdout.split('\n').filter((line) => line.endsWith('/record')).length, 2);
      const ready = await first.kubectl('get', 'nodes', '--no-headers');
      assert.equal(ready.split('\n').filter((line) => / Ready /.test(line)).length, 2, ready);
    },
  );

  await story.test('the kubelet of the worker requests no certificates', async () => {
    const kubelet = await kubeletConfiguration(new NodeShell(bench, NAME, 'n2'));
    assert.equal(kubelet.rotateCertificates, false);
    assert.notEqual(kubelet.serverTLSBootstrap, true);
  });

  await story.test('the certificate of the worker is renewed before each expiry', async () => {
    const before = await worker.notAfterMs();
    const renewed = await eventually(
      'the worker has a new certificate',
      120,
      () => worker.notAfterMs(),
      (at) => at > before,
    );
    assert.ok(renewed <= Date.now() + 2 * 60 * SECONDS + 5 * SECONDS);
    await eventually(
      'the worker has one more certificate',
      120,
      () => worker.notAfterMs(),
      (at) => at > renewed,
    );
  });

  await story.test(
    'a worker that was off until its certificate expired returns with the same key and fresh evidence',
    async () => {
      await worker.run('systemctl', 'stop', 'bootstrapper');
      const endsMs = await worker.notAfterMs();
      await eventually(
        'the certificate expires',
        150,
        () => Promise.resolve(Date.now()),
        (now) => now > endsMs + SECONDS,
      );
      await worker.run('systemctl', 'start', 'bootstrapper');
      await eventually(
        'the worker has a valid certificate',
        60,
        () => worker.notAfterMs(),
        (at) => at > Date.now(),
      );
      assert.match(await worker.log(), /expired while the node was off/);
      assert.equal(await worker.nodeId(), key);
    },
  );
});
