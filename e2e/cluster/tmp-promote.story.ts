import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBench } from '../machines/bench.ts';
import { JoiningCluster } from './joining.ts';
import { eventually } from './node-shell.ts';
const NAME = 'promo';
await test('promote', async (story) => {
  await using bench = await createBench();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const cluster = new JoiningCluster(bench, NAME);
  const ws = await cluster.workspace();
  const must = (...a: string[]) => bench.must('--workspace', ws, ...a);
  try {
    await story.test('promote n2', async (s) => {
      s.diagnostic(
        await must(
          'node',
          'set-role',
          'n2',
          '--control-plane',
          '--worker',
          '--force',
          '--delete-emptydir-data',
        ),
      );
      await eventually(
        'n2 signer',
        60,
        () =>
          cluster.run(
            'n2',
            'systemctl',
            'is-active',
            'cluster-signer',
            'cluster-joinservice',
            'cluster-etcd',
          ),
        (t) => t === 'active\nactive\nactive',
      );
      s.diagnostic(
        await cluster.sh(
          'n2',
          'ls -la /var/lib/cluster/credentials /var/lib/cluster-signer; cat /etc/cluster/signer.json; openssl x509 -in /var/lib/cluster/credentials/curator.crt -noout -text | grep -A1 -E "URI|Not After|DNS"',
        ),
      );
    });
    await story.test('n2 renews at both, and its curator answers the CLI', async (s) => {
      const a2 = await cluster.address('n2');
      s.diagnostic(await must('status'));
      s.diagnostic(
        await cluster.sh(
          'n1',
          'journalctl -u cluster-signer -o cat --no-pager | tail -20; ls /var/lib/cluster-signer /var/lib/cluster-signer/*',
        ),
      );
      // own certificates of n2 are made due
      await cluster.sh(
        'n2',
        'echo x > /var/lib/cluster/kubernetes/kubelet-client.crt; echo x > /var/lib/cluster/credentials/curator.crt; systemctl restart bootstrapper',
      );
      await eventually(
        'renewed',
        120,
        () =>
          cluster.sh(
            'n2',
            'openssl x509 -in /var/lib/cluster/kubernetes/kubelet-client.crt -noout -dates && openssl x509 -in /var/lib/cluster/credentials/curator.crt -noout -dates',
          ),
        (t) => t.includes('notAfter'),
      );
      s.diagnostic(
        await cluster.sh(
          'n2',
          `journalctl -u cluster-signer -o cat --no-pager | tail -20; journalctl -u bootstrapper -o cat --no-pager | grep -i "renew\\|due\\|signer" | tail`,
        ),
      );
      assert.ok(a2);
    });
    await story.test('keys rotate', async (s) => {
      s.diagnostic(await must('keys', 'rotate', '--timeout', '300s'));
    });
    await story.test('demote n2', async (s) => {
      s.diagnostic(await must('node', 'set-role', 'n2', '--worker', '--force', '--delete-emptydir-data'));
      await eventually(
        'nothing is left',
        120,
        () =>
          cluster.sh(
            'n2',
            'ls /var/lib/cluster-signer /var/lib/cluster/credentials/curator.key /var/lib/cluster/ca 2>/dev/null || true',
          ),
        (t) => t === '',
      );
    });
  } finally {
    for (const n of ['n1', 'n2'])
      console.log(
        n,
        await cluster
          .sh(
            n,
            'journalctl -u bootstrapper -u cluster-signer -u cluster-joinservice -o cat --no-pager | grep -E "warn|error" | tail -25',
          )
          .catch(String),
      );
  }
});
