import { build } from 'esbuild';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { reportOpen, reportRefused } from '../../attack-report.ts';
import { createHarness } from '../../machines/harness.ts';
import { createPairs, DISK_SHARES_FILE, publicPartsOf } from '../../../internal/keyset/index.ts';
import { CLUSTER_PREFIX, KEYS_KEY, records } from '../../../internal/records/index.ts';
import { captureStatement } from './captured-statement.ts';
import type { JoinserviceAttackRequest, JoinserviceAttackResult } from './compromised-joinservice-request.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';

const NAME = 'deputy';
const PROGRAM = '/var/lib/deputy.mjs';
const USER = 'cluster-joinservice';
const CONTROL_PLANE = ['ConsensusMember', 'KubernetesController'] as const;
const REQUIRE =
  "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";
/** Words in the result of a successful attack. Only the results in `GOT` may contain them. */
const WORTH_HAVING = /keys|credential|operator|administrator|secrets|bytes|answer|evidence/;

/**
 * The expected error code of each attack that reaches a service. The kernel refuses attacks that read files.
 */
const REFUSALS: Readonly<Record<string, RegExp>> = {
  'evidence for a statement of its own': /^evidence-socket-refused$/,
  'the secrets of Kubernetes in etcd': /^etcd-(permission-denied|denied)$/,
  'a curator, called with the key of the services': /^rpc-/,
  'a control plane by a record of its own': /^signer-evidence-refused$/,
  'the same, and a configuration that takes its evidence': /^signer-grant-missing$/,
  'the same, and a grant that it signed itself': /^owner-document-signer-unknown$/,
  'the same, and a set of owners that it signed itself': /^owner-document-signer-unknown$/,
  'its own key in the record of the control plane': /^signer-not-on-record$/,
  'a statement of the control plane with another recipient': /^signer-request-invalid$/,
  'a statement of the control plane with another address': /^signer-request-invalid$/,
  'a statement of the control plane with evidence for another one': /^signer-evidence-refused$/,
  'an older statement of the control plane': /^signer-statement-replayed$/,
  'the certificate of an operator by a record': /^signer-not-on-record$/,
  'the certificate of an operator by a list that it signed itself': /^owner-document-signer-unknown$/,
  'a kubeconfig of an administrator by a record': /^signer-not-on-record$/,
  'the address of the control plane for a worker of its own': /^signer-address-other$/,
  'the name of the control plane for a worker of its own': /^signer-address-other$/,
};
/** The attacks that succeed, and what the attacker gets, as docs/threat-model.md (§9) says. */
const GOT: Readonly<Record<string, string>> = {
  'a statement of the control plane, passed on as it is':
    'the keys of the control plane, sealed to the agent that asked',
  'a worker of its own': 'a certificate of a worker',
};

await test('attacks by a compromised join service on a live control plane', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  const local = await bench.cluster(NAME);
  const first = await local.node('n1');

  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, 'compromised-joinservice.ts')],
    ...{ bundle: true, platform: 'node', target: 'node24', format: 'esm', write: false },
    banner: { js: REQUIRE },
  });
  await first.exec(['sh', '-c', `cat > ${PROGRAM}`], {
    input: outputFiles[0]?.contents ?? '',
    signal: bench.signal,
  });
  /** Runs the attacks in the mount namespace of the join service, as its user and without capabilities. */
  const deputy = async (orders: JoinserviceAttackRequest): Promise<readonly JoinserviceAttackResult[]> => {
    const pid = await cluster.run('n1', 'systemctl', 'show', '-P', 'MainPID', `${USER}.service`);
    const as = ['setpriv', `--reuid=${USER}`, `--regid=${USER}`, '--clear-groups', '--no-new-privs'];
    const { stdout } = await first.exec(
      ['nsenter', `--mount=/proc/${pid}/ns/mnt`, '--', ...as, '--', '/usr/lib/cluster/node', PROGRAM],
      { input: JSON.stringify(orders), signal: bench.signal, timeoutMs: 120_000 },
    );
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as JoinserviceAttackResult);
  };
  /** The statement that the join service receives from the agent of the first machine. */
  const captured = async (timeMs: number) =>
    captureStatement({
      stolen: {
        tpm: join(first.paths.tpm, 'run/tpm.sock'),
        key: join(first.paths.data, 'cluster/machine/key.pem'),
        sealed: join(first.paths.data, 'cluster/machine/attestation-key.sealed'),
      },
      clusterId: (JSON.parse(await cluster.run('n1', 'cat', '/etc/cluster/joinservice.json')) as Config)
        .clusterId,
      address: first.address,
      roles: CONTROL_PLANE,
      timeMs,
    });
  /** The shared keys on a node, a digest and a path per line. Before a rotation, only the secret for disk shares. */
  const keysOf = async (machine: string): Promise<string> =>
    cluster.sh(
      machine,
      'sha256sum /var/lib/cluster/keys/* /var/lib/cluster/kubernetes/clients-ca.crt 2>/dev/null || true',
    );
  const recordOf = async (name: string): Promise<Record<string, unknown>> => {
    const got = await cluster.etcdctl('n1', 'get', '--prefix', '--print-value-only', '/cluster/nodes/');
    const all = got.split('\n').filter((line) => line.includes('"pubKey"'));
    const found = all.map((line) => JSON.parse(line) as Record<string, unknown>);
    return found.find((record) => record['name'] === name) ?? {};
  };

  const worker = { nodeId: String((await recordOf('n2'))['nodeId']) };
  const nowMs = Date.now();
  const [older, newer] = [await captured(nowMs - 5_000), await captured(nowMs)];
  const results = await deputy({ older, newer, worker });

  for (const result of results) {
    const { attack } = result;
    await story.test(attack, (step) => {
      if ('got' in result) {
        assert.equal(result.got, GOT[attack]);
        reportOpen(step, attack, result.got);
        return;
      }
      const want = attack.startsWith('read ') ? /^(EACCES|ENOENT|EPERM)$/ : REFUSALS[attack];
      assert.match(result.code, want ?? /never/);
      reportRefused(step, attack, result.refusedBy, result.code);
    });
  }

  await story.test('every attack in the list was made, and none got a secret', () => {
    const made = results.map(({ attack }) => attack).filter((attack) => !attack.startsWith('read '));
    assert.deepEqual(made.toSorted(), [...Object.keys(REFUSALS), ...Object.keys(GOT)].toSorted());
    const got = results.flatMap((result) => ('got' in result && !(result.attack in GOT) ? [result.got] : []));
    assert.deepEqual(
      got.filter((what) => WORTH_HAVING.test(what)),
      [],
    );
  });

  await story.test(
    'a worker stays a worker and logs the reason when an attacker writes control-plane roles into its record',
    async (step) => {
      const record = await recordOf('n2');
      const key = `/cluster/nodes/${worker.nodeId}/record`;
      const forged = JSON.stringify({ ...record, roles: [...CONTROL_PLANE, 'KubernetesWorker'] });
      await cluster.etcdctl('n1', 'put', key, forged);
      const refused = /signer-grant-missing|owner-document-required|join-grant-\w+/;
      const log = await eventually(
        'the agent logs that the signature of an owner is missing',
        90,
        () => cluster.log('n2'),
        (log) => refused.test(log),
      );
      assert.equal(
        await cluster.sh('n2', 'ls /var/lib/cluster/ca /etc/kubernetes/pki/ca.key 2>/dev/null || true'),
        '',
      );
      reportRefused(
        step,
        'control-plane roles in the record of a worker',
        'agent',
        refused.exec(log)?.[0] ?? '',
      );
      await cluster.etcdctl('n1', 'put', key, JSON.stringify(record));
    },
  );

  await story.test(
    'every node refuses shared keys that no owner has signed, and logs the reason',
    async (step) => {
      const [previous, next] = [await createPairs(1, nowMs), await createPairs(2, nowMs)];
      const announced = records.keys.encode({
        ...{ version: 1, generation: 2, phase: 'trust', startedMs: nowMs, phaseSinceMs: nowMs },
        ...{ startedBy: 'operator:owner', reason: '' },
        made: {
          by: String((await recordOf('n1'))['nodeId']),
          previous: publicPartsOf(previous),
          next: publicPartsOf(next),
        },
      });
      const key = `${CLUSTER_PREFIX}${KEYS_KEY}`;
      const keysBefore = new Map([
        ['n1', await keysOf('n1')],
        ['n2', await keysOf('n2')],
      ]);
      assert.match(keysBefore.get('n1') ?? '', new RegExp(`^\\w{64}  \\S+/${DISK_SHARES_FILE}$`));
      assert.equal(keysBefore.get('n2'), '');
      await cluster.etcdctl('n1', 'put', key, Buffer.from(announced).toString('utf8'));
      for (const machine of ['n1', 'n2']) {
        await eventually(
          `the agent of ${machine} logs that no owner has signed the keys`,
          90,
          () => cluster.log(machine),
          (log) =>
            /verifying the announced keys of generation 2: .*no owner has signed such a document/.test(log),
        );
        assert.equal(await keysOf(machine), keysBefore.get(machine));
        reportRefused(step, 'shared keys of its own', `the agent of ${machine}`, 'owner-document-required');
      }
      await cluster.etcdctl('n1', 'del', key);
    },
  );
});

interface Config {
  readonly clusterId: string;
}
