import type { Clock } from '../../internal/clock/index.ts';
import { EtcdClient, Namespace } from '../../internal/etcd/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';
import {
  implement,
  localUpgrade,
  RpcServer,
  type Handlers,
  type LocalPeer,
} from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { Signer } from '../signerproto/gen/signer_pb.js';
import type { SignerConfig } from './config.ts';
import { SignerError } from './errors.ts';
import { signKubeconfig } from './kubeconfig-signer.ts';
import { KeyRing } from './key-ring.ts';
import { Lifetimes } from './lifetimes.ts';
import { MemberSigner } from './member-signer.ts';

const MAX_PEM_BYTES = 64 * 1024;
const GRACE_MS = 2_000;

export interface SignerPorts {
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Signs until the signal fires. */
export async function serveSigner(
  config: SignerConfig,
  ports: SignerPorts,
  options: { readonly signal: AbortSignal; readonly onListening?: () => void },
): Promise<void> {
  const { files, clock, log } = ports;
  const { endpoint, caFile, certFile, keyFile } = config.etcd;
  using etcd = new EtcdClient({
    endpoints: [endpoint],
    identity: {
      certPem: await readText(files, certFile),
      keyPem: new Secret(await readText(files, keyFile)),
    },
    serverCaPem: await readText(files, caFile),
    clock,
  });
  const space = new Namespace(etcd, CLUSTER_PREFIX);
  const reads = {
    etcd: space,
    lifetimes: new Lifetimes(space),
    keys: new KeyRing({ files, folder: config.keys, nowMs: () => clock.nowMs() }),
  };
  const signer = new MemberSigner(reads);
  await using server = new RpcServer<LocalPeer>({
    upgrade: localUpgrade,
    services: [implement(Signer, { ...signerHandlers(signer, log), ...kubeconfigHandler(reads, log) })],
    disclose: 'chain',
    log: log.child('rpc'),
  });
  await files.remove(config.listen); // of one that was killed
  await server.listenAt(config.listen);
  log.info('the signer listens', { path: config.listen });
  options.onListening?.();
  await new Promise<void>((resolve) => {
    if (options.signal.aborted) resolve();
    options.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  await server.close(GRACE_MS);
}

/** The contract on one side, the one who decides on the other. Each signature is a line in the log. */
export function signerHandlers(
  signer: MemberSigner,
  log: Logger,
): Omit<Handlers<typeof Signer, LocalPeer>, 'signKubeconfig'> {
  return {
    signMember: async (request, { signal }) => {
      const signed = await signer.signMember(request, signal);
      const sealed = signed.controlPlaneKeys;
      log.info('signed for a node', {
        node: request.nodeId,
        address: request.address,
        keys: sealed !== undefined,
      });
      return {
        nodeCertificatePem: signed.nodeCertPem,
        kubernetesCaPem: signed.kubernetesCaPem,
        kubernetesClientsCaPem: signed.kubernetesClientsCaPem,
        kubeletClientCertificatePem: signed.kubeletClientCertPem,
        kubeletServingCertificatePem: signed.kubeletServingCertPem,
        ...(sealed === undefined ? {} : { controlPlaneKeys: sealed }),
      };
    },
    signOperator: async ({ certificateRequest }, { signal }) => {
      const certificatePem = await signer.signOperator(certificateRequest, signal);
      log.info('signed for an operator');
      return { certificatePem };
    },
  };
}

function kubeconfigHandler(
  reads: Parameters<typeof signKubeconfig>[0],
  log: Logger,
): Pick<Handlers<typeof Signer, LocalPeer>, 'signKubeconfig'> {
  return {
    signKubeconfig: async (request, { signal }) => {
      const { certificateRequest, operatorPublicKey: operatorPubKeyDer, signature } = request;
      const asked = { certificateRequest, operatorPubKeyDer, signature };
      const { certPem, kubernetesCaPem } = await signKubeconfig(reads, asked, signal);
      log.info('signed for a kubeconfig');
      return { certificatePem: certPem, kubernetesCaPem };
    },
  };
}

async function readText(files: FilePort, path: string): Promise<string> {
  const bytes = await files.read(path, MAX_PEM_BYTES);
  if (bytes === undefined) throw new SignerError('signer-key-missing', `reading ${path}: it is not there`);
  return Buffer.from(bytes).toString('utf8');
}
