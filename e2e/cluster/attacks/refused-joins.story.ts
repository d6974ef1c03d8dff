import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { NodeState } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { createCertificateRequest, generateKeyPem } from '../../../internal/pki/index.ts';
import { reportRefused } from '../../attack-report.ts';
import { createHarness } from '../../machines/harness.ts';
import { extendRegister } from '../../machines/tpm-client.ts';
import type { Attack } from './attack-request.ts';
import { RefusalChecks, CompromisedMachine } from './compromised-machine.ts';
import { editJoinSettings, StoryCluster, reprovision, type JoinSettings } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';
import { newMutation, OwnerClient } from '../harness/owner-client.ts';
import { waitForExit, waitForOutput } from '../harness/program-output.ts';

const NAME = 'refused';
/** The record with the settings that joining machines get. */
const SETTINGS = '/cluster/meta/settings';
const EXIT_REFUSED = 4;
const EXIT_UNHEALTHY = 10;
/** The PCR value of a fresh software TPM, and the value after the attacker measured other software. */
const [UNTOUCHED, OTHER_SOFTWARE] = ['00'.repeat(32), 'ab'.repeat(32)];

interface Explained {
  readonly join?: { readonly state: string; readonly code: string };
  readonly facts: readonly {
    readonly side: string;
    readonly name: string;
    readonly outcome: string;
    readonly expected: string;
    readonly actual: string;
    readonly fix: string;
    readonly code: string;
  }[];
}

await test('refused machines: both sides and the audit log have the reason, and nothing is issued', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  let [listed, unlisted]: JoinSettings['join']['inventory'] = [];
  await cluster.machines(
    { controlPlanes: 1, workers: 3 },
    editJoinSettings(({ join: joining, attestation: { policy } }) => {
      policy['registers'] = { 4: { expected: UNTOUCHED } };
      [listed, unlisted] = joining.inventory;
      joining.inventory = joining.inventory.filter(({ name }) => name !== 'n2' && name !== 'n3');
    }),
  );
  const workspace = await cluster.workspace();
  const endpoint = `${await cluster.address('n1')}:9090`;
  const at = async (machine: string) => CompromisedMachine.compromise(bench, cluster, machine, endpoint);
  const tpmOf = async (machine: string) =>
    join((await (await bench.cluster(NAME)).node(machine)).paths.tpm, 'run/tpm.sock');
  await extendRegister(await tpmOf('n4'), 4, OTHER_SOFTWARE);
  await cluster.init();

  /** Applies another configuration, which is active when this resolves. */
  const configure = async (change: (config: JoinSettings) => void): Promise<void> => {
    await cluster.edit(editJoinSettings(change));
    await bench.must('--workspace', workspace, 'config', 'apply', '--yes');
  };
  /** Runs `cluster join` of the owner against a machine until the machine reports this code. */
  const untilItSays = async (machine: string, code: string, owner = workspace): Promise<void> => {
    const node = `${await cluster.address(machine)}:9000`;
    const flags = [
      '--node',
      node,
      '--endpoint',
      endpoint,
      '--wait',
      '--timeout',
      '60s',
      '--output',
      'json',
      '--events',
      'stdout',
    ];
    const cli = bench.startCli('--workspace', owner, 'join', ...flags);
    const over = waitForExit(cli);
    await waitForOutput(cli, new RegExp(`"${code}"`));
    cli.kill();
    await over;
  };
  await story.test(
    'a machine refuses programs that no owner has signed, and joins after it gets signed programs',
    async (step) => {
      const settings = await cluster.etcdctl('n1', 'get', '--print-value-only', SETTINGS);
      const { bundleManifest, ...others } = JSON.parse(settings) as { readonly bundleManifest: string };
      const changed = bundleManifest.replace(/"sha256": "[0-9a-f]{64}"/, `"sha256": "${'0'.repeat(64)}"`);
      assert.notEqual(changed, bundleManifest);
      await cluster.etcdctl('n1', 'put', SETTINGS, JSON.stringify({ ...others, bundleManifest: changed }));
      // The two must run in parallel: the machine asks to join on its own, so it may be admitted and report the code
      // before the CLI starts to watch.
      await Promise.all([
        untilItSays('n2', 'joinclient-settings-unsigned'),
        configure(({ join: joining }) => {
          if (listed !== undefined) joining.inventory.push(listed);
        }),
      ]);
      await assert.rejects(cluster.run('n2', 'test', '-e', '/opt/cluster/bin/kubelet'));
      const attempted = 'give a joining machine programs that no owner has signed';
      reportRefused(step, attempted, 'the machine', 'joinclient-settings-unsigned');
      await cluster.etcdctl('n1', 'put', SETTINGS, settings.trimEnd());
      await cluster.allReady(['n1', 'n2'], 180);
    },
  );
  const [member, mallory] = [await at('n2'), await at('n3')];
  const explained = async (subject: string): Promise<Explained> => {
    const { stdout, code } = await bench.cli(
      '--workspace',
      workspace,
      'explain',
      subject,
      '--output',
      'json',
    );
    assert.equal(code, EXIT_UNHEALTHY, stdout);
    return (JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as { readonly data: Explained }).data;
  };
  /**
   * Asserts that a refused machine reports the code, that `cluster explain` shows the cause, and that the
   * audit log has the refusal.
   */
  const refusedAtBothEnds = async (
    step: TestContext,
    code: string,
    about = mallory.nodeId,
  ): Promise<void> => {
    await untilItSays('n3', code);
    const { join: request, facts } = await explained(about);
    assert.deepEqual({ code: request?.code }, { code });
    const found = facts.map(({ side, name }) => `${side} ${name.split(' ')[0]}`);
    for (const each of ['clock', 'dns', 'path', 'owner', 'proxy'])
      assert.ok(found.includes(`machine ${each}`), `${each} is in ${found.join(', ')}`);
    for (const each of ['evidence', 'clock']) assert.ok(found.includes(`cluster ${each}`), found.join(', '));
    const [cause] = facts.filter((fact) => fact.side === 'cluster' && fact.code === code);
    assert.ok(cause?.outcome === 'fail' && cause.expected !== '' && cause.actual !== '' && cause.fix !== '');
    await refusals.audited({ code, subject: about });
    reportRefused(step, step.name, 'the join service', code);
  };
  const refusals = new RefusalChecks(cluster);
  await refusals.begin();

  await story.test('an unknown machine is refused', (step) =>
    refusedAtBothEnds(step, 'join-unknown-machine'),
  );

  await story.test('a machine that measured other software is refused', async (step) => {
    await untilItSays('n4', 'atls-alert-evidence-rejected');
    const subject = `address:${await cluster.address('n4')}`;
    const entry = await refusals.audited({ code: 'attestation-register-mismatch', subject });
    assert.match(JSON.stringify(entry?.detail), new RegExp(UNTOUCHED ?? ''));
    // There is no join record of this machine, so the cluster knows only its address.
    const { join: request, facts } = await explained(await cluster.address('n4'));
    assert.equal(request, undefined);
    const [cause] = facts.filter(({ code }) => code === 'attestation-register-mismatch');
    assert.deepEqual(
      [cause?.side, cause?.name, cause?.outcome, cause?.fix !== ''],
      ['cluster', 'evidence', 'fail', true],
    );
    assert.match(cause?.expected ?? '', new RegExp(UNTOUCHED ?? ''));
    assert.doesNotMatch(cause?.actual ?? '', new RegExp(UNTOUCHED ?? ''));
    reportRefused(step, step.name, 'the join service', 'attestation-register-mismatch');
  });

  await story.test('a machine that asks for the name of a member is refused', async (step) => {
    assert.ok(unlisted !== undefined);
    const named = { ...unlisted, name: 'n2' };
    await configure(({ join: joining }) => (joining.inventory = [named]));
    await refusedAtBothEnds(step, 'join-name-taken');
  });

  await story.test('a machine that asks for roles that it is not granted is refused', async (step) => {
    const wantedRoles = ['ConsensusMember', 'KubernetesController'];
    await reprovision(cluster, 'n3', (provisioning) => ({ ...provisioning, wantedRoles }));
    await configure(
      ({ join: joining }) => (joining.inventory = [listed, unlisted].filter((each) => each !== undefined)),
    );
    await refusedAtBothEnds(step, 'join-role-denied');
    const node = `${await cluster.address('n3')}:9000`;
    const flags = ['--node', node, '--endpoint', endpoint, '--wait', '--timeout', '60s'];
    const { code } = await bench.cli('--workspace', workspace, 'join', ...flags);
    assert.equal(code, EXIT_REFUSED);
  });

  await story.test('nothing was issued to any of the refused machines', () => refusals.expectNothingGiven());

  await story.test(
    'a machine refuses a cluster of another owner that runs the same software',
    async (step) => {
      const owner = join(bench.directory, 'another-owner');
      const made = await bench.must('--workspace', owner, 'config', 'generate', '--output', 'json');
      const [, key] = /"ownerPublicKey":"([^"]+)"/.exec(made) ?? [];
      await reprovision(cluster, 'n3', ({ wantedRoles: _, ...rest }) => ({ ...rest, ownerKeys: [key] }));
      const asked = async () =>
        (await cluster.audit()).filter(({ subject }) => subject === mallory.nodeId).length;
      const known = await asked();
      await untilItSays('n3', 'joinclient-owner-unknown', owner);
      reportRefused(step, 'pose as the cluster of another owner', 'the machine', 'joinclient-owner-unknown');
      assert.equal(await asked(), known, 'the refused cluster received no request');
      assert.equal(
        await cluster
          .try('n3', 'test', '-e', '/var/lib/cluster/enrolment/lock.json')
          .then(({ code }) => code),
        1,
      );
    },
  );

  // From here on an attacker's program uses the key and TPM of n3 instead of the agent.
  await cluster.run('n3', 'systemctl', 'stop', 'bootstrapper');
  const refuse = async (
    step: TestContext,
    [by, attack]: readonly [CompromisedMachine, Attack],
    code: string,
    more: Parameters<CompromisedMachine['attack']>[1] & { readonly audit?: RegExp } = {},
  ): Promise<void> => {
    const { audit = code, ...orders } = more;
    await refusals.expect(by.attack(attack, orders), { code, audit });
    const who = by === member ? 'a member' : 'an unknown machine';
    reportRefused(step, `${who} shows or asks for ${attack}`, 'the join service', code);
  };

  await story.test('replayed evidence is refused', async (step) => {
    await refuse(step, [mallory, 'evidence that was shown before'], 'atls-alert-evidence-rejected', {
      audit: /^quote-/,
    });
  });

  await story.test('evidence, keys and identities of another machine are refused', async (step) => {
    const others = member.stolen;
    await refuse(step, [mallory, 'the TPM of another machine'], 'join-evidence-mismatch', { others });
    await refuse(step, [mallory, 'the endorsement key of another machine'], 'enrol-answer-wrong', { others });
    await refuse(step, [mallory, 'the key of another machine'], 'join-identity-changed', { others });
    await refuse(step, [member, 'a second key for one machine'], 'join-identity-taken');
  });

  await story.test(
    "an attacker with a member's machine and key, but without the data that its agent sealed to the TPM, is refused",
    async (step) => {
      const { sealed: _, ...own } = member.stolen;
      await refuse(step, [member, 'certificates'], 'join-identity-changed', { own });
    },
  );

  await story.test(
    'a ticket request is refused for another key, after the admission expired, and for a used ticket',
    async (step) => {
      assert.deepEqual(await mallory.attack('admission'), { granted: 'n3', names: [] });
      const victim = { nodeId: mallory.nodeId, name: 'n3' };
      const own = { tpm: member.stolen.tpm };
      await refuse(step, [member, 'the ticket of another machine'], 'join-ticket-other-key', { own, victim });
      await runOut(mallory.nodeId);
      await refuse(step, [mallory, 'a ticket'], 'join-admission-expired');
      await runOut(member.nodeId);
      await refuse(step, [member, 'a ticket'], 'join-ticket-used');
    },
  );

  await story.test('a kubelet cannot get certificates for another node', async (step) => {
    const victim = { nodeId: (await at('n1')).nodeId, name: 'n1' };
    await refuse(step, [member, 'another node for its kubelet'], 'signer-request-invalid', { victim });
    const names = ['CN=system:node:n2', 'CN=system:node:n2'];
    assert.deepEqual(await member.attack('another name for its kubelet', { victim }), {
      granted: 'n2',
      names,
    });
    // The API server also refuses certificate requests for the other node that are sent with the kubelet's
    // own certificate.
    await refusals.begin();
    for (const signer of ['kubelet-serving', 'kube-apiserver-client-kubelet']) {
      await requestAsKubelet(signer, await createCertificateRequest(generateKeyPem(), 'system:node:n1'));
      const attempted = `a member asks Kubernetes for a ${signer} certificate of another node`;
      reportRefused(step, attempted, 'the API server', '403 Forbidden');
    }
    await refusals.expectNothingGiven();
  });

  await story.test('a decommissioned machine and a deleted node are refused', async (step) => {
    using ownerClient = await OwnerClient.open(workspace);
    const { nodeId } = member;
    await ownerClient.curator.setNodeRoles({ nodeId, roles: [], ...newMutation() }, { signal: bench.signal });
    await ownerClient.curator.setNodeState(
      { nodeId, state: NodeState.DECOMMISSIONED, ...newMutation() },
      { signal: bench.signal },
    );
    await refusals.begin();
    await refuse(step, [member, 'certificates'], 'join-decommissioned');
    await refuse(step, [member, 'a second key for one machine'], 'join-decommissioned');
    await bench.must('--workspace', workspace, 'node', 'remove', '--yes', 'n2', '--lost');
    await refusals.begin();
    await refuse(step, [member, 'certificates'], 'join-not-member');
    await refuse(step, [member, 'a second key for one machine'], 'join-decommissioned');
    await cluster.run('n2', 'systemctl', 'restart', 'bootstrapper');
    await eventually(
      'the agent of the removed node logs its removal',
      60,
      () => cluster.log('n2'),
      (log) => /this node was removed/.test(log),
    );
  });

  await story.test(
    'the refused machines join after the cause is fixed, and the audit log passes its verification',
    async () => {
      const { ownerKeys } = JSON.parse(await cluster.run('n1', 'cat', '/etc/cluster/provisioning.json')) as {
        ownerKeys: readonly string[];
      };
      // The attacker joined with the TPM of n3, so a register of that TPM already has the node lock. The agent joins
      // nevertheless.
      await reprovision(cluster, 'n3', (provisioning) => ({ ...provisioning, ownerKeys }));
      await cluster.allReady(['n1', 'n3'], 180);
      await bench.must('--workspace', workspace, 'audit', 'verify');
      await cluster.expectNoInternet(['n1', 'n2', 'n3', 'n4']);
    },
  );

  /** Sets the expiry time of an admission to the past. */
  async function runOut(nodeId: string): Promise<void> {
    const key = `/cluster/joins/${nodeId}`;
    const record = JSON.parse(await cluster.etcdctl('n1', 'get', '--print-value-only', key)) as {
      decision: object;
    };
    const past = { ...record, decision: { ...record.decision, expiresMs: 1 } };
    await cluster.etcdctl('n1', 'put', key, JSON.stringify(past));
  }

  async function requestAsKubelet(signer: string, csrDer: Uint8Array): Promise<void> {
    const usages = ['digital signature', signer === 'kubelet-serving' ? 'server auth' : 'client auth'];
    const pem = `-----BEGIN CERTIFICATE REQUEST-----\n${Buffer.from(csrDer).toString('base64')}\n-----END CERTIFICATE REQUEST-----\n`;
    const object = {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { name: `mallory-${signer}` },
      spec: { signerName: `kubernetes.io/${signer}`, request: Buffer.from(pem).toString('base64'), usages },
    };
    // Runs on a control plane with the kubelet credentials of the member, because workers have no kubectl.
    const directory = '/run/mallory';
    await cluster.sh('n1', `mkdir -p -m 700 ${directory}`);
    for (const kind of ['crt', 'key']) {
      const pem = await cluster.run('n2', 'cat', `/var/lib/cluster/kubernetes/kubelet-client.${kind}`);
      const text = Buffer.from(`${pem}\n`).toString('base64');
      await cluster.sh('n1', `echo ${text} | base64 -d > ${directory}/${kind}`);
    }
    const base64 = Buffer.from(JSON.stringify(object)).toString('base64');
    const answer = await cluster.sh(
      'n1',
      `echo ${base64} | base64 -d | KUBECONFIG=/dev/null kubectl --server https://127.0.0.1:6445 --insecure-skip-tls-verify --client-certificate ${directory}/crt --client-key ${directory}/key create -f - 2>&1 || true
      rm -r ${directory}`,
    );
    assert.match(answer, /Forbidden/);
  }
});
