import { describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { ChainVerifier } from '../../internal/audit/index.ts';
import {
  generateEd25519Key,
  kubeconfigStatement,
  selfSignedCertificate,
  signEd25519,
} from '../../internal/crypto/index.ts';
import {
  createCertificateRequest,
  fingerprintOfKey,
  generateKeyPem,
  pubKeyDerOf,
  verifyMemberCertificate,
} from '../../internal/pki/index.ts';
import { createClient } from '../../internal/rpc/index.ts';
import { OperatorApi, type AuditHead } from '../curatorproto/gen/operatorapi_pb.js';
import {
  coded,
  mutation,
  openCuratorChannel,
  serviceOfTheseTests,
  type TestService,
} from './fake-service.ts';

const never = new AbortController().signal;

let service: TestService;
serviceOfTheseTests((started) => (service = started));

describe('operators over mTLS', () => {
  test('new operators get a certificate for their own key, and the last owner cannot be deleted', async () => {
    const keyPem = generateKeyPem();
    const certificateRequest = await createCertificateRequest(keyPem, 'anything');
    const documents = await service.operators('eve', { role: 'viewer', pubKeyDer: pubKeyDerOf(keyPem) });
    const put = { name: 'eve', role: 'viewer', certificateRequest, ...mutation() };
    await expect(service.admin.putOperator(put, { signal: never })).rejects.toEqual(
      coded('owner-document-required'),
    );
    const added = await service.admin.putOperator({ ...put, ...mutation(), documents }, { signal: never });
    const identity = verifyMemberCertificate(
      new X509Certificate(added.certificatePem),
      service.cluster.trust,
    );
    expect(identity).toMatchObject({
      kind: 'operator',
      name: 'eve',
      fingerprint: added.operator?.fingerprint,
    });
    const { operators } = await service.admin.listOperators({}, { signal: never });
    expect(operators.map(({ name, role }) => `${name} ${role}`)).toEqual(
      expect.arrayContaining(['eve viewer', 'owner owner']),
    );
    const without = { documents: await service.operators('eve') };
    await service.admin.deleteOperator({ name: 'eve', ...without, ...mutation() }, { signal: never });
    await expect(
      service.admin.deleteOperator({ name: 'owner', ...mutation() }, { signal: never }),
    ).rejects.toEqual(coded('operatorapi-last-owner'));
  });

  test('an owner gets a kubeconfig certificate for a request that the owner’s key signed', async () => {
    const [ownKey, kubectlKey] = [generateEd25519Key(), generateKeyPem()];
    const csr = await createCertificateRequest(ownKey, 'anything');
    const documents = await service.operators('second', { role: 'owner', pubKeyDer: pubKeyDerOf(ownKey) });
    const put = { name: 'second', role: 'owner', certificateRequest: csr, documents, ...mutation() };
    const { certificatePem: certPem } = await service.admin.putOperator(put, { signal: never });
    const { trust } = service.cluster;
    using channel = openCuratorChannel(service.curatorEndpoint, { certPem, keyPem: ownKey }, trust);
    const own = createClient(OperatorApi, channel);
    const certificateRequest = await createCertificateRequest(kubectlKey, 'anything');
    const statement = kubeconfigStatement({ clusterId: service.cluster.clusterId, certificateRequest });
    const operatorPublicKey = pubKeyDerOf(ownKey);
    const asked = { certificateRequest, operatorPublicKey, signature: signEd25519(ownKey, statement) };
    const { certificatePem, kubernetesCaPem } = await own.issueKubeconfig(
      { ...asked, ...mutation() },
      { signal: never },
    );
    const certificate = new X509Certificate(certificatePem);
    const uid = `1.3.6.1.4.1.57683.2=${fingerprintOfKey(operatorPublicKey)}`;
    expect(certificate.subject.split('\n')).toEqual(['CN=second', 'O=kubeadm:cluster-admins', uid]);
    expect(certificate.verify(new X509Certificate(kubernetesCaPem).publicKey)).toBe(true);
    expect(
      Buffer.compare(certificate.publicKey.export({ type: 'spki', format: 'der' }), pubKeyDerOf(kubectlKey)),
    ).toBe(0);
    // Refused: the request of one owner, sent by another one, and a request whose signature is for another
    // cluster.
    await expect(
      service.admin.issueKubeconfig({ ...asked, ...mutation() }, { signal: never }),
    ).rejects.toThrow();
    const signature = signEd25519(ownKey, kubeconfigStatement({ clusterId: 'another', certificateRequest }));
    await expect(
      own.issueKubeconfig({ ...asked, signature, ...mutation() }, { signal: never }),
    ).rejects.toEqual(coded('operatorapi-signing-failed'));
    const without = { documents: await service.operators('second') };
    await service.admin.deleteOperator({ name: 'second', ...without, ...mutation() }, { signal: never });
    await expect(own.issueKubeconfig({ ...asked, ...mutation() }, { signal: never })).rejects.toThrow();
  });

  test('operators renew their certificate with the key alone while the key is recorded', async () => {
    const keyPem = generateEd25519Key();
    const certificateRequest = await createCertificateRequest(keyPem, 'anything');
    const documents = await service.operators('late', { role: 'viewer', pubKeyDer: pubKeyDerOf(keyPem) });
    await service.admin.putOperator(
      { name: 'late', role: 'viewer', certificateRequest, documents, ...mutation() },
      { signal: never },
    );
    const channelWith = (certPem: string) =>
      openCuratorChannel(service.curatorEndpoint, { certPem, keyPem }, service.cluster.trust);
    const own = { keyPem: keyPem.reveal(), commonName: 'late', nowMs: Date.now() };
    using bare = channelWith(await selfSignedCertificate(own));
    const { certificatePem } = await createClient(OperatorApi, bare).renewOperator(
      { certificateRequest },
      { signal: never },
    );
    using renewed = channelWith(certificatePem);
    const { operators } = await createClient(OperatorApi, renewed).listOperators({}, { signal: never });
    expect(operators.map(({ name }) => name)).toContain('late');
    await expect(createClient(OperatorApi, bare).listOperators({}, { signal: never })).rejects.toEqual(
      coded('curator-denied'),
    );
    const without = { documents: await service.operators('late') };
    await service.admin.deleteOperator({ name: 'late', ...without, ...mutation() }, { signal: never });
    for (const channel of [bare, renewed])
      await expect(
        createClient(OperatorApi, channel).renewOperator({ certificateRequest }, { signal: never }),
      ).rejects.toEqual(coded('curator-not-member'));
  });

  test('operators read and verify the audit log, and a later read continues where the first one stopped', async () => {
    const verifier = new ChainVerifier();
    let head: AuditHead | undefined;
    for await (const { message } of service.admin.listAudit({}, { signal: never })) {
      if (message.case === 'entry') verifier.next(message.value.record);
      else if (message.case === 'head') head = message.value;
    }
    if (head === undefined) throw new Error('no head');
    verifier.verifyHead({ seq: Number(head.seq), hash: head.hash });
    expect(head).toMatchObject({ clusterId: service.cluster.clusterId, firstSeq: 1n });
    const rest: bigint[] = [];
    for await (const { message } of service.admin.listAudit({ afterSeq: head.seq - 2n }, { signal: never }))
      if (message.case === 'entry') rest.push(message.value.seq);
    expect(rest).toEqual([head.seq - 1n, head.seq]);
  });
});
