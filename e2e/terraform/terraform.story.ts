import assert from 'node:assert/strict';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execPath } from 'node:process';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { createHarness, OWNER_KEY } from '../machines/harness.ts';
import { shellBlocks } from '../cluster/tutorial/shell-blocks.ts';
import { OpenTofu, provisioningIn } from './open-tofu.ts';

const PAGE = join(import.meta.dirname, '../../docs/tutorial/terraform.md');
const CLI = join(import.meta.dirname, '../../cli/main.ts');
/** Values for the places that the page leaves open. */
const OPEN: Readonly<Record<string, string>> = {
  sha256: 'ab'.repeat(32),
  subnet_id: '0a8eee1b-5ac6-4f9b-8f0f-3f4e6f6d9b11',
  image_id: '7d1b7d2b-58f4-4a70-9d1e-4d5a2c1f3c11',
};

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

  const page = await readFile(PAGE, 'utf8');

  await story.test('the commands of the tutorial at the workstation run as they are written', async () => {
    const blocks = shellBlocks(page);
    assert.equal(blocks.length, 2);
    const directory = join(bench.directory, 'workstation');
    await mkdir(directory);
    await writeFile(join(directory, 'cluster'), `#!/bin/sh\nexec '${execPath}' '${CLI}' "$@"\n`, {
      mode: 0o755,
    });
    const { stdout } = await bench.machines.commands.run({
      argv: ['bash', '-euo', 'pipefail', '-c', blocks.map(({ script }) => script).join('\n')],
      cwd: directory,
      env: { PATH: `${directory}:/usr/bin:/bin`, HOME: directory },
      timeoutMs: 60_000,
      signal: bench.signal,
    });
    assert.match(stdout, /"ownerKeys": \[\n +"[\w+/]{43}="/);
    const config = parse(await readFile(join(directory, 'prod/cluster.yaml'), 'utf8')) as {
      readonly firstNode: { readonly runsWorkloads: boolean };
    };
    assert.equal(config.firstNode.runsWorkloads, false);
  });

  await story.test('the outputs that the tutorial names exist in both examples', async () => {
    const named = [...page.matchAll(/output `(\w+)`|terraform output -raw (\w+)/g)].map(
      ([, one, other]) => one ?? other ?? '',
    );
    assert.deepEqual([...new Set(named)].toSorted(), ['api_endpoint', 'first', 'inventory']);
    for (const example of ['openstack', 'aws']) {
      const text = await readFile(join(tofu.examples, example, 'outputs.tf'), 'utf8');
      for (const name of named) assert.match(text, new RegExp(`^output "${name}" `, 'm'));
    }
  });

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
    await writeFile(join(tofu.examples, 'openstack/terraform.tfvars'), variablesOf(page));
    await tofu.run('openstack', 'init', '-no-color', '-backend=false');
    await tofu.run('openstack', 'validate', '-no-color');
    assert.match(await tofu.run('openstack', 'test', '-no-color'), /2 passed, 0 failed/);
  });
});

/** `terraform.tfvars` as the page has it, with values where it has none. */
function variablesOf(page: string): string {
  const [, text = ''] = /```hcl\n([\s\S]*?)```/.exec(page) ?? [];
  const filled = text.replaceAll(/^(\s*(\w+)\s*= )"…"$/gm, (line, start: string, name: string) =>
    OPEN[name] === undefined ? line : `${start}"${OPEN[name]}"`,
  );
  assert.doesNotMatch(filled, /…/);
  return filled;
}
