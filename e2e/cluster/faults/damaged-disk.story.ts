import assert from 'node:assert/strict';
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { CLUSTER_PREFIX, documentKey } from '../../../internal/records/index.ts';
import { createHarness } from '../../machines/harness.ts';
import { WatchedMachine } from '../init/watched-machine.ts';
import { eventually } from '../harness/node-shell.ts';

const STATE = '/var/lib/cluster';
/** A shell command that overwrites four bytes in the middle of a file. */
const spoil = (path: string): string =>
  `printf '~~~~' | dd of=${path} bs=1 seek=$(( $(stat -c %s ${path}) / 2 )) conv=notrunc 2>/dev/null`;
const hide = (path: string): string => `rm ${path}`;

/**
 * A damaged file on a machine of a running cluster, and the error code with which the agent refuses the file.
 */
const CASES = [
  {
    what: 'a damaged membership',
    file: 'membership/membership.json',
    damage: spoil,
    code: 'membership-damaged',
  },
  {
    what: 'damaged roles',
    file: 'membership/roles.json',
    damage: spoil,
    code: 'membership-damaged',
  },
  {
    what: 'a damaged journal of the init',
    file: 'init/request.json',
    damage: spoil,
    code: 'initserver-record-damaged',
  },
  {
    what: 'a damaged outcome of the init',
    file: 'init/outcome.json',
    damage: spoil,
    code: 'initserver-record-damaged',
  },
  { what: 'a damaged node lock', file: 'enrolment/lock.json', damage: spoil, code: 'nodelock-damaged' },
  {
    what: 'no node lock beside etcd’s data',
    file: 'enrolment/lock.json',
    damage: hide,
    code: 'enrolment-files-missing',
  },
  {
    what: 'no membership beside etcd’s data',
    file: 'membership/membership.json',
    damage: hide,
    code: 'enrolment-files-missing',
  },
  {
    what: 'no CA of etcd’s clients',
    file: 'consensus/state/clients/ca.key',
    damage: hide,
    code: 'enrolment-keys-missing',
  },
  {
    what: 'no CA of etcd’s peers',
    file: 'consensus/kubernetes/peers/ca.crt',
    damage: hide,
    code: 'enrolment-keys-missing',
  },
  { what: 'no CA of the cluster', file: 'ca/ca.key', damage: hide, code: 'enrolment-keys-missing' },
  {
    what: 'no CA of Kubernetes',
    file: '/etc/kubernetes/pki/ca.key',
    damage: hide,
    code: 'enrolment-keys-missing',
  },
  { what: 'no key of the machine', file: 'machine/key.pem', damage: hide, code: 'enrolment-keys-missing' },
] as const;

/**
 * Lists all files of the agent with their modification times, except the data of etcd, which changes all the
 * time.
 */
const FINGERPRINT = `find ${STATE} /etc/kubernetes -path '${STATE}/etcd-*/data' -prune -o -path ${STATE}/store/blobs -prune -o -type f -printf '%p %s %m %T@\\n' -exec sha256sum {} \\; | sort | sha256sum`;
/** The files in which agent and signer store which owner documents they have accepted. */
const RECORD = `${STATE}/membership/accepted-documents.json`;
const ACCEPTED = `${RECORD} ${STATE}/membership/configuration-floors.json /var/lib/cluster-signer`;
const SERVING_CERT = `${STATE}/kubernetes/kubelet-serving.crt`;
const UNITS = [
  'cluster-etcd-state',
  'cluster-etcd-kubernetes',
  'cluster-joinservice',
  'cluster-apilb',
  'cluster-containerd',
  'kubelet',
];
/** A renewal restarts join service and curator, and nothing else. */
const KUBERNETES = 'for name in kubelet kube-apiserver kube-scheduler etcd; do pgrep -x $name; done';
const WORKLOADS = `${UNITS.map((unit) => `systemctl show -p MainPID --value ${unit}`).join('; ')}; pgrep -x kube-apiserver; pgrep -x kube-scheduler`;

await test('a machine with a damaged disk refuses a second init, changes nothing and resumes when the file is restored', async (story) => {
  await using bench = await createHarness({ givesOldDisks: true });
  const machine = await WatchedMachine.create(bench, 'damaged');
  await bench.must(...machine.init());
  const nodes = (): Promise<string> => machine.sh('kubectl get nodes --no-headers');
  await eventually('the node is Ready', 60, nodes, (line) => / Ready /.test(line));
  const workloads = await machine.sh(WORKLOADS);
  assert.match(workloads, /^([1-9]\d*\n){7}[1-9]\d*$/, 'all workloads run');

  for (const { what, file, damage, code } of CASES)
    await story.test(what, async (each) => {
      const path = file.startsWith('/') ? file : `${STATE}/${file}`;
      await machine.sh(`systemctl stop bootstrapper; cp -p ${path} /run/kept; ${damage(path)}`);
      const before = await machine.sh(FINGERPRINT);
      const refused = await startAgent(machine);
      const line = await refused((said) => said.includes(`"${code}"`));
      assert.ok(line.includes(path), `${line} names ${path}`);
      each.diagnostic(line);
      assert.match(await nodes(), / Ready /, 'Kubernetes answers');
      assert.equal(await machine.sh(FINGERPRINT), before, 'the agent changed no file');
      assert.equal(await machine.sh(WORKLOADS), workloads, 'the same workloads run');

      const goesOn = await listen(machine);
      await machine.sh(`cp -p /run/kept ${path}`);
      await goesOn((said) => said.includes('"to":"Running"'));
      assert.equal(await machine.sh(WORKLOADS), workloads, 'the same workloads run');
    });

  assert.match(await bench.must(...machine.init()), /nothing was changed/);

  await story.test(
    'older files of accepted documents give nobody anything new until an owner signs again',
    async () => {
      const owner = (...args: readonly string[]) => bench.must('--workspace', machine.workspace, ...args);
      const directory = join(bench.directory, 'ann');
      await mkdir(directory);
      const ann = (...args: readonly string[]) => bench.cli('--workspace', directory, ...args);
      const [request, grant] = ['ann.csr', 'ann.grant'].map((name) => join(directory, name)) as [
        string,
        string,
      ];
      const addAnn = async (): Promise<void> => {
        await owner('operator', 'add', 'ann', '--role', 'operator', '--request', request, '--out', grant);
        await bench.must('--workspace', directory, 'operator', 'accept', grant);
        await bench.must('--workspace', directory, 'kubeconfig', '--renew');
      };
      const kubernetes = await machine.sh(KUBERNETES);
      const bound = (): Promise<string> => machine.sh(`cat ${RECORD}`);
      await bench.must('--workspace', directory, 'operator', 'key', 'ann');
      await addAnn();
      const first = await eventually('the list of operators is bound', 30, bound, (text) =>
        text.includes('signer/operators'),
      );
      await machine.sh(`rm -rf /run/old; mkdir /run/old; cp -a --parents ${ACCEPTED} /run/old`);
      const list = `${CLUSTER_PREFIX}${documentKey('operators', '')}`;
      const { stdout: old } = await machine.node.etcdctl('root', 'get', '--print-value-only', list);
      await addAnn();
      await eventually('the newer list is bound', 30, bound, (text) => text !== first);

      await machine.sh(
        `systemctl stop bootstrapper cluster-signer; cp -a /run/old/. /; echo x > ${SERVING_CERT}; systemctl start cluster-signer`,
      );
      const found = await startAgent(machine);
      await found((said) => said.includes('"owner-document-before-rollback"'));
      assert.match(await nodes(), / Ready /, 'Kubernetes answers');
      assert.equal(await machine.sh(KUBERNETES), kubernetes, 'the same processes run');
      const isRenewed = (): Promise<string> => machine.sh(`cat ${SERVING_CERT}`);
      await eventually('the node renews its certificates', 60, isRenewed, (text) => text.includes('BEGIN'));

      // An attacker restores the older list of operators. A curator that has just started has forgotten the newer one.
      await machine.node.etcdctl('root', 'put', list, old.trim());
      await machine.sh('systemctl restart cluster-joinservice');
      const refusals = `journalctl -u cluster-signer -u cluster-joinservice -o cat --since -1min | grep -E '"(warn|error)"' || true`;
      await eventually(
        'the signer refuses ann',
        60,
        async () => `${(await ann('kubeconfig', '--renew')).stderr} ${await machine.sh(refusals)}`,
        (text) => /refused to sign a kubeconfig.*owner-document-before-rollback/.test(text),
      );
      const doctor = async (): Promise<string> =>
        (await bench.cli('--workspace', machine.workspace, 'doctor')).stdout;
      const warning = /runs on an old copy of its disk/;
      await eventually('the doctor names the old disk', 30, doctor, (text) => warning.test(text));
      await owner('sign', '--yes');
      assert.doesNotMatch(await doctor(), warning);
      await bench.must('--workspace', directory, 'kubeconfig', '--renew');
      assert.equal(await machine.sh(KUBERNETES), kubernetes, 'the same processes run');
    },
  );

  /** A workspace of which only the keys and the configuration are left. */
  const remainsIn = async (name: string): Promise<string> => {
    const directory = join(bench.directory, name);
    await mkdir(directory);
    for (const file of ['owner-key.pem', 'master-secret.json', 'cluster.yaml'])
      await copyFile(join(machine.workspace, file), join(directory, file));
    return directory;
  };
  const initIn = (workspace: string, fingerprint: string) =>
    bench.must('--workspace', workspace, 'init', '--node', machine.address, '--fingerprint', fingerprint);

  await story.test(
    'with only the keys and cluster.yaml, init finds the cluster and writes the missing files',
    async () => {
      const [remains, processes] = [await remainsIn('remains'), await machine.sh(WORKLOADS)];
      assert.match(await initIn(remains, machine.fingerprint), /Cluster damaged is running/);
      assert.match(await bench.must('--workspace', remains, 'status'), /n1 +Healthy/);
      await bench.must('--workspace', remains, 'kubeconfig', '--renew');
      assert.equal(await machine.sh(WORKLOADS), processes, 'the same workloads run');
    },
  );

  await story.test(
    'a machine is reset without its cluster, and init creates a new cluster on it',
    async () => {
      const lost = await machine.clusterId();
      assert.ok(lost);
      await machine.sh(
        `install -D /dev/null ${STATE}/reset/order.json; systemctl restart --no-block bootstrapper`,
      );
      // Only a restart clears the TPM register with the node lock. A local machine powers off instead of restarting.
      const local = await (await bench.cluster('damaged')).node('n1');
      const isOff = async (): Promise<boolean> => !(await local.isRunning(bench.signal));
      await eventually('the machine has powered off', 120, isOff, (off) => off);
      await local.start(bench.signal);
      const fingerprint = await eventually(
        'the machine waits for an init with another key',
        180,
        () => machine.sh(`test ! -e ${STATE}/reset/order.json && cat ${STATE}/machine/fingerprint`),
        (text) => text.startsWith('sha256:') && text !== machine.fingerprint,
      );
      const again = join(bench.directory, 'again');
      await mkdir(again);
      await bench.must('--workspace', again, 'config', 'generate', '--name', 'damaged');
      // The machine accepts only this owner. The new master secret makes the cluster another one.
      for (const file of ['owner-key.pem', 'cluster.yaml'])
        await copyFile(join(machine.workspace, file), join(again, file));
      await initIn(again, fingerprint);
      await eventually('the node is Ready', 120, nodes, (line) => / Ready /.test(line));
      const created = await machine.clusterId();
      assert.ok(created !== undefined && created !== lost, `cluster ${created}`);
      const { stdout } = await bench.cli('--workspace', again, 'status'); // its pods may still start
      assert.match(stdout, /n1 +Healthy/);
    },
  );
});

type Wanted = (line: string) => boolean;

/** Starts the agent. Returns a function that waits for a log line that is written from then on. */
async function startAgent(machine: WatchedMachine): Promise<(wanted: Wanted) => Promise<string>> {
  const hear = await listen(machine);
  await machine.sh('systemctl start --no-block bootstrapper');
  return hear;
}

/** Returns a function that waits for a log line of the agent that is written from now on. */
async function listen(machine: WatchedMachine): Promise<(wanted: Wanted) => Promise<string>> {
  const shown = await machine.sh('journalctl -u bootstrapper -n 0 --show-cursor');
  const cursor = /cursor: (\S+)/.exec(shown)?.[1];
  assert.ok(cursor, shown);
  return async (wanted) => {
    const lines = await eventually(
      'the agent has logged the expected line',
      60,
      async () =>
        (await machine.sh(`journalctl -u bootstrapper -o cat --after-cursor='${cursor}'`)).split('\n'),
      (said) => said.some(wanted),
    );
    return lines.find(wanted) ?? '';
  };
}
