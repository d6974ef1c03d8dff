import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { editJoinSettings, installCli, reprovision, StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'uninstall';
const CONTROL_PLANE = 'n2';
const WORKER = 'n3';
/**
 * Directories that every running Debian machine fills by itself, and directories that the host shares with a local
 * machine.
 */
const OTHERS =
  /^\.\/(usr\/lib\/(cluster-mini|modules)|proc|sys|dev|run|tmp|root|var\/(log|cache|tmp|lib\/(dpkg|systemd|apt|dbus|cluster-seed|swtpm))|etc\/(machine-id|resolv\.conf|hostname|hosts|\.pwd\.lock|(passwd|shadow|group|gshadow)-?))(\/|$)/;
/** Mount points that the host makes on a local machine; they are not compared, but the files in them are. */
const MOUNT_POINTS: readonly string[] = [
  './opt/cluster',
  './var/lib/cluster',
  './var/lib/containerd',
  './var/lib/kubelet',
];
/** The files in directories that the system fills too: they are compared with those before the machine joined. */
const LIST_SHARED =
  'find /run /var/log /var/cache -xdev -not -path "/run/systemd/*" -not -path "/run/udev/*"';
/** Files that a running Debian machine makes there by itself, and what the host gives a local machine. */
const OF_SYSTEM =
  /^\/(run\/(cluster-mini|cluster-tpm|log|lock|user|mount|credentials|dbus|utmp|initctl|blkid|xtables\.lock|agetty\.reload)|var\/log\/(journal|private|apt|dpkg\.log|alternatives\.log|btmp|wtmp|lastlog|faillog)|var\/cache\/(apt|debconf|ldconfig|man|private))(\/|$)/;
/** Every rule and every chain that is not built in, in all tables; without counters, comments and the frames of nft. */
const LIST_RULES = `{ iptables-save; ip6tables-save; nft list ruleset; } 2>/dev/null | sed -E 's/\\[[0-9]+:[0-9]+\\]//; s/^[[:space:]]+//; s/[[:space:]]+$//; s/counter packets [0-9]+ bytes [0-9]+/counter/' | grep -vE '^(#|\\*|COMMIT|:(PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING) |table |chain (PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING) |type |\\}|$)' | sort -u || true`;
const LIST = 'find . \\( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run \\) -prune -o -print';

/** Keeps no pod away from a node without a choice. */
const TAINT = { key: 'edge', value: 'yes', effect: 'PreferNoSchedule' };
const LABEL = 'example.org/rack';
const listWithTaint = editJoinSettings(({ join }) => {
  for (const entry of join.inventory)
    if (entry.name === WORKER) Object.assign(entry, { taints: [TAINT], labels: { [LABEL]: 'r7' } });
});

/**
 * A worker and a control plane are removed, and then uninstalled as an operator does it. Their root file systems must then have
 * the files that they had before the agent's package was installed.
 */
await test('a removed machine stops its programs and reports its removal, and after a reset the purge of the package leaves nothing', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 2, workers: 1 }, listWithTaint);
  const sharedOf = async (machine: string): Promise<readonly string[]> =>
    (await cluster.sh(machine, LIST_SHARED)).split('\n').filter((path) => !OF_SYSTEM.test(path));
  const rulesOf = (machine: string): Promise<string> => cluster.sh(machine, LIST_RULES);
  const before = new Map<string, { readonly shared: readonly string[]; readonly rules: string }>();
  for (const machine of [CONTROL_PLANE, WORKER])
    before.set(machine, { shared: await sharedOf(machine), rules: await rulesOf(machine) });
  await cluster.up();
  const must = async (...args: readonly string[]) =>
    bench.must('--workspace', await cluster.workspace(), ...args);
  const purge = (machine = WORKER) => cluster.try(machine, 'dpkg', '--purge', 'cluster-agent');

  await story.test('a taint and a label of the inventory are in Kubernetes', async () => {
    const taints = 'jsonpath={range .spec.taints[*]}{.key}={.value}:{.effect} {end}';
    await eventually(
      `the taint of ${WORKER}`,
      30,
      () => cluster.run('n1', 'kubectl', 'get', 'node', WORKER, '--output', taints),
      (text) => text.includes('edge=yes:PreferNoSchedule'),
    );
    await eventually(
      `the label of ${WORKER}`,
      30,
      () => cluster.run('n1', 'kubectl', 'get', 'nodes', '--selector', `${LABEL}=r7`, '--output', 'name'),
      (text) => text.trim() === `node/${WORKER}`,
    );
  });

  await story.test('dpkg refuses to remove the package from a node and prints what to do first', async () => {
    const { code, stderr } = await purge();
    assert.notEqual(code, 0);
    assert.match(
      stderr,
      /not removed, because this machine has data of a cluster[^]*cluster node reset NODE/,
    );
    const state = await cluster.run(
      WORKER,
      'dpkg-query',
      '--show',
      '--showformat',
      '${Status}',
      'cluster-agent',
    );
    // dpkg has recorded the request ("purge"), but the package is still completely installed.
    assert.equal(state, 'purge ok installed');
    assert.equal(await cluster.run(WORKER, 'systemctl', 'is-active', 'bootstrapper'), 'active');
  });

  await story.test('`node remove` prints what to do with the machine', async () => {
    const said = await must('node', 'remove', WORKER, '--yes');
    assert.match(said, /Its disk is not erased: .* To use the machine again, reset it there as root/);
  });

  await story.test(
    'the removed machine stops everything, and its status and console report that it was removed',
    async () => {
      const status = await eventually(
        'the status of the removed machine',
        60,
        () => cluster.run(WORKER, 'systemctl', 'status', '--no-pager', '--full', 'bootstrapper'),
        (text) => /Status: "removed: this machine was node n3 of cluster uninstall/.test(text),
      );
      assert.match(status, /Fix: To use the machine again, reset it/);
      const units =
        'systemctl list-units --plain --no-legend --state running "cluster-*" kubelet.service "cri-*"';
      assert.equal(await cluster.sh(WORKER, units), '');
      assert.equal(
        await cluster.sh(WORKER, 'pgrep --list-name "kube|etcd|containerd|flanneld|pause" || true'),
        '',
      );
      assert.match(await cluster.run(WORKER, 'cat', '/run/issue.d/60-cluster.issue'), /has removed it/);
      await installCli(bench, NAME, WORKER);
      const joined = await cluster.try(WORKER, 'cluster', 'join', '--wait', '--timeout', '30s');
      assert.equal(joined.code, 4, joined.stderr);
      assert.match(joined.stderr, /was node n3 of cluster uninstall[^]*removal-removed/);
      assert.doesNotMatch(joined.stdout + joined.stderr, /Member/);
    },
  );

  await story.test(
    'after the next boot the removed machine still reports its removal and runs nothing',
    async () => {
      await cluster.cutPower(WORKER);
      await cluster.start(WORKER);
      await eventually(
        'the status after the boot',
        60,
        () => cluster.run(WORKER, 'systemctl', 'status', '--no-pager', '--full', 'bootstrapper'),
        (text) => /Status: "removed: /.test(text),
      );
      assert.equal(await cluster.sh(WORKER, 'pgrep --list-name "kube|etcd|containerd" || true'), '');
      assert.notEqual((await purge()).code, 0, 'its disk still has data of the cluster');
    },
  );

  /** Resets a removed machine and purges the packages; nothing must be left. */
  const expectNothingLeft = async (machine: string, say: (text: string) => void): Promise<void> => {
    await cluster.sh(machine, 'install -D /dev/null /var/lib/cluster/reset/order.json');
    // Without a TPM the reset does not reboot the machine. So everything that is gone was removed by the reset
    // itself and not by the reboot.
    await reprovision(cluster, machine, (known) => ({ ...known, tpm: { kind: 'none' } }));
    await eventually(
      'the end of the reset',
      60,
      () => cluster.sh(machine, 'test ! -e /var/lib/cluster/reset/order.json && echo done'),
      (said) => said === 'done',
    );
    const { code, stdout, stderr } = await purge(machine);
    assert.equal(code, 0, stderr);
    say(stdout);
    if (machine === WORKER) await cluster.run(machine, 'dpkg', '--purge', 'cluster');

    const { layers } = (await (await bench.cluster(NAME)).node(machine)).record;
    const lines = (text: string) =>
      text
        .split('\n')
        .filter((path) => path !== '' && !OTHERS.test(path) && !MOUNT_POINTS.includes(path))
        .sort();
    const installed = new Set(
      lines(execFileSync('sh', ['-c', LIST], { cwd: layers.at(-1), encoding: 'utf8' })),
    );
    const after = lines(await cluster.sh(machine, `cd / && ${LIST}`));
    assert.deepEqual(
      after.filter((path) => !installed.has(path)),
      [],
      'no file is left',
    );
    const earlier = new Set(before.get(machine)?.shared);
    assert.deepEqual(
      (await sharedOf(machine)).filter((path) => !earlier.has(path) || /cluster|kube|containerd/.test(path)),
      [],
      'no file is left in /run, /var/log and /var/cache',
    );
    assert.equal(await cluster.sh(machine, 'getent passwd | grep -i cluster || true'), '');
    assert.equal(await cluster.sh(machine, 'getent group | grep -i cluster || true'), '');
    const units =
      'systemctl list-units --all --type service,slice,scope --plain --no-legend | grep -iE "cluster|kube|cri-" || true';
    assert.equal(await cluster.sh(machine, units), '');
    assert.equal(
      await rulesOf(machine),
      before.get(machine)?.rules,
      'the netfilter rules are those of before',
    );
    assert.equal(await cluster.sh(machine, 'ip -o link | grep -E "cni|flannel|veth" || true'), '');
    assert.equal(
      await cluster.sh(machine, 'findmnt -rno TARGET | grep -E "kubelet/|containerd/|netns|cni" || true'),
      '',
    );
  };

  await story.test('after a reset, a purge leaves no file, unit, account, rule, link or mount', (step) =>
    expectNothingLeft(WORKER, (text) => step.diagnostic(text)),
  );

  await story.test('nor does a purge on a machine that was a control plane', async (step) => {
    const accounts = 'getent passwd | cut -d: -f1 | grep "^cluster-" | sort | paste -sd " "';
    assert.equal(
      await cluster.sh(CONTROL_PLANE, accounts),
      'cluster-etcd-kubernetes cluster-etcd-state cluster-joinservice cluster-signer',
    );
    await cluster.sh(
      CONTROL_PLANE,
      'test -d /var/lib/cluster-signer && test -e /var/log/kubernetes/audit.log',
    );
    await must('node', 'remove', CONTROL_PLANE, '--yes', '--keep-keys');
    await eventually(
      'the machine learns that it was removed',
      60,
      () => cluster.run(CONTROL_PLANE, 'systemctl', 'status', '--no-pager', '--full', 'bootstrapper'),
      (text) => /Status: "removed: /.test(text),
    );
    await expectNothingLeft(CONTROL_PLANE, (text) => step.diagnostic(text));
  });
});
