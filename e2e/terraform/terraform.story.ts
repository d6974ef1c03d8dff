import assert from 'node:assert/strict';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { createHarness, OWNER_KEY } from '../machines/harness.ts';
import { OpenTofu, provisioningIn } from './open-tofu.ts';

const MACHINES = {
  c1: { address: '10.0.0.21', role: 'control-plane' },
  c2: { address: '10.0.0.22', role: 'control-plane' },
  w1: { address: '10.0.0.24', role: 'worker' },
};
const IDENTITIES = {
  c1: `tpm-ek:${'1'.repeat(64)}`,
  c2: `tpm-ek:${'2'.repeat(64)}`,
  w1: `tpm-ek:${'3'.repeat(64)}`,
};

/**
 * Runs the Terraform examples with OpenTofu, without a cloud. The AWS provider cannot be built from a Go module, so
 * its example is only parsed and checked for its format.
 */
await test('the Terraform examples are valid, and make provisioning and an inventory that the CLI accepts', async (story) => {
  await using bench = await createHarness();
  const tofu = await OpenTofu.build(bench);

  await story.test('all examples have valid syntax and the standard format', async () => {
    await tofu.run('.', 'fmt', '-check', '-recursive', '-diff');
  });

  for (const tpm of [true, false])
    await story.test(`each machine gets valid provisioning ${tpm ? 'with' : 'without'} a TPM`, async () => {
      const given = { owner_keys: [OWNER_KEY], first: 'c1', tpm, machines: MACHINES };
      const { user_data: userData } = await tofu.provisioning(given);
      assert.deepEqual(Object.keys(userData.value), Object.keys(MACHINES));
      for (const [name, { address }] of Object.entries(MACHINES)) {
        const { text, content } = provisioningIn(userData.value[name] ?? '');
        const file = join(bench.directory, `${name}.json`);
        await writeFile(file, text);
        await bench.must('provisioning', 'validate', file);
        assert.deepEqual(
          [content.nodeName, content.address, content.wantedRoles],
          [name, address, undefined],
        );
      }
      const endpoints = (name: string) => provisioningIn(userData.value[name] ?? '').content.joinEndpoints;
      assert.deepEqual(
        [endpoints('c1'), endpoints('c2'), endpoints('w1')],
        [undefined, ['10.0.0.21'], ['10.0.0.21', '10.0.0.22']],
      );
    });

  await story.test(
    'the inventory has the known machines except the first, and cluster.yaml accepts it',
    async () => {
      const { inventory } = await tofu.provisioning({
        ...{ owner_keys: [OWNER_KEY], first: 'c1', tpm: true, machines: MACHINES },
        identities: IDENTITIES,
      });
      const entries = parse(inventory.value) as readonly object[];
      assert.deepEqual(entries, [
        { identity: IDENTITIES.c2, name: 'c2', roles: ['control-plane'] },
        { identity: IDENTITIES.w1, name: 'w1', roles: ['worker'] },
      ]);
      const workspace = join(bench.directory, 'workspace');
      await bench.must(
        '--workspace',
        workspace,
        'config',
        'generate',
        '--name',
        'prod',
        '--attestation',
        'tpm',
      );
      const path = join(workspace, 'cluster.yaml');
      const config = parse(await readFile(path, 'utf8')) as { join: object };
      await writeFile(path, stringify({ ...config, join: { ...config.join, inventory: entries } }));
      await bench.must('--workspace', workspace, 'config', 'validate');
    },
  );

  await story.test('a machine without an owner is refused', async () => {
    await assert.rejects(
      tofu.provisioning({ owner_keys: [], first: 'c1', tpm: true, machines: MACHINES }),
      /belongs to nobody/,
    );
  });

  await story.test('the example for OpenStack is valid, and makes machines and a load balancer', async () => {
    await copyFile(
      join(import.meta.dirname, 'openstack.tftest.hcl'),
      join(tofu.examples, 'openstack/openstack.tftest.hcl'),
    );
    await tofu.run('openstack', 'init', '-no-color', '-backend=false');
    await tofu.run('openstack', 'validate', '-no-color');
    assert.match(await tofu.run('openstack', 'test', '-no-color'), /2 passed, 0 failed/);
  });
});
