import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { installCli, reprovision, StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'uninstall';
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
const LIST = 'find . \\( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run \\) -prune -o -print';

/**
 * The worker is removed, and then uninstalled as an operator does it. Its root file system must then have the files that it had
 * before the agent's package was installed.
 */
await test('a removed machine stops its programs and reports its removal, and after a reset the purge of the package leaves nothing', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  const must = async (...args: readonly string[]) =>
    bench.must('--workspace', await cluster.workspace(), ...args);
  const purge = () => cluster.try('n2', 'dpkg', '--purge', 'cluster-agent');

  await story.test('dpkg refuses to remove the package from a node and prints what to do first', async () => {
    const { code, stderr } = await purge();
    assert.notEqual(code, 0);
    assert.match(
      stderr,
      /not removed, because this machine has data of a cluster[^]*cluster node reset NODE/,
    );
    const state = await cluster.run(
      'n2',
      'dpkg-query',
      '--show',
      '--showformat',
      '${Status}',
      'cluster-agent',
    );
    // dpkg has recorded the request ("purge"), but the package is still completely installed.
    assert.equal(state, 'purge ok installed');
    assert.equal(await cluster.run('n2', 'systemctl', 'is-active', 'bootstrapper'), 'active');
  });

  await story.test('`node remove` prints what to do with the machine', async () => {
    const said = await must('node', 'remove', 'n2', '--yes');
    assert.match(said, /Its disk is not erased: .* To use the machine again, reset it there as root/);
  });

  await story.test(
    'the removed machine stops everything, and its status and console report that it was removed',
    async () => {
      const status = await eventually(
        'the status of the removed machine',
        60,
        () => cluster.run('n2', 'systemctl', 'status', '--no-pager', '--full', 'bootstrapper'),
        (text) => /Status: "removed: this machine was node n2 of cluster uninstall/.test(text),
      );
      assert.match(status, /Fix: To use the machine again, reset it/);
      const units =
        'systemctl list-units --plain --no-legend --state running "cluster-*" kubelet.service "cri-*"';
      assert.equal(await cluster.sh('n2', units), '');
      assert.equal(
        await cluster.sh('n2', 'pgrep --list-name "kube|etcd|containerd|flanneld|pause" || true'),
        '',
      );
      assert.match(await cluster.run('n2', 'cat', '/run/issue.d/60-cluster.issue'), /has removed it/);
      await installCli(bench, NAME, 'n2');
      const joined = await cluster.try('n2', 'cluster', 'join', '--wait', '--timeout', '30s');
      assert.equal(joined.code, 4, joined.stderr);
      assert.match(joined.stderr, /was node n2 of cluster uninstall[^]*removal-removed/);
      assert.doesNotMatch(joined.stdout + joined.stderr, /Member/);
    },
  );

  await story.test(
    'after the next boot the removed machine still reports its removal and runs nothing',
    async () => {
      await cluster.cutPower('n2');
      await cluster.start('n2');
      await eventually(
        'the status after the boot',
        60,
        () => cluster.run('n2', 'systemctl', 'status', '--no-pager', '--full', 'bootstrapper'),
        (text) => /Status: "removed: /.test(text),
      );
      assert.equal(await cluster.sh('n2', 'pgrep --list-name "kube|etcd|containerd" || true'), '');
      assert.notEqual((await purge()).code, 0, 'its disk still has data of the cluster');
    },
  );

  await story.test(
    'after a reset, a purge leaves no file, unit, account, rule, link or mount',
    async (step) => {
      await cluster.sh('n2', 'install -D /dev/null /var/lib/cluster/reset/order.json');
      // Without a TPM the reset does not reboot the machine. So everything that is gone was removed by the reset
      // itself and not by the reboot.
      await reprovision(cluster, 'n2', (known) => ({ ...known, tpm: { kind: 'none' } }));
      await eventually(
        'the end of the reset',
        60,
        () => cluster.sh('n2', 'test ! -e /var/lib/cluster/reset/order.json && echo done'),
        (said) => said === 'done',
      );
      const { code, stdout, stderr } = await purge();
      assert.equal(code, 0, stderr);
      step.diagnostic(stdout);
      await cluster.run('n2', 'dpkg', '--purge', 'cluster');

      const { layers } = (await (await bench.cluster(NAME)).node('n2')).record;
      const lines = (text: string) =>
        text
          .split('\n')
          .filter((path) => path !== '' && !OTHERS.test(path) && !MOUNT_POINTS.includes(path))
          .sort();
      const before = new Set(
        lines(execFileSync('sh', ['-c', LIST], { cwd: layers.at(-1), encoding: 'utf8' })),
      );
      const after = lines(await cluster.sh('n2', `cd / && ${LIST}`));
      assert.deepEqual(
        after.filter((path) => !before.has(path)),
        [],
        'no file is left',
      );
      assert.equal(await cluster.sh('n2', 'getent passwd | grep -i cluster || true'), '');
      assert.equal(await cluster.sh('n2', 'getent group | grep -i cluster || true'), '');
      const units =
        'systemctl list-units --all --type service,slice,scope --plain --no-legend | grep -iE "cluster|kube|cri-" || true';
      assert.equal(await cluster.sh('n2', units), '');
      const rules = 'iptables-save; ip6tables-save; nft list ruleset';
      assert.doesNotMatch(await cluster.sh('n2', rules), /KUBE|CNI|FLANNEL|cluster/);
      assert.equal(await cluster.sh('n2', 'ip -o link | grep -E "cni|flannel|veth" || true'), '');
      assert.equal(
        await cluster.sh('n2', 'findmnt -rno TARGET | grep -E "kubelet/|containerd/|netns|cni" || true'),
        '',
      );
    },
  );
});
