import { z } from 'zod';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { readText } from '../credentials/key-pair.ts';
import { ROTATED_FILES } from '../credentials/key-files.ts';
import { PATHS } from '../settings.ts';

const KUBECTL_MS = 15_000;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const shape = z.object({ data: z.record(z.string(), z.string()).default({}) });

/**
 * Removes CAs that are no longer trusted from the ConfigMap kube-system/extension-apiserver-authentication.
 * This ConfigMap tells extension API servers and the scheduler which clients to trust. API servers add their
 * CAs to it and remove none before it expires
 * (k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust). Without this removal, the
 * holder of a lost front-proxy key could act as any user at these servers. An API server that still trusts a
 * removed CA adds it again.
 */
export async function removeRetiredCas(
  { commands, files }: { readonly commands: CommandRunner; readonly files: FilePort },
  signal: AbortSignal,
): Promise<void> {
  if ((await files.stat(ROTATED_FILES.issuerCert)) === undefined) return;
  const trusted = {
    'client-ca-file': certificatesIn(await readText(files, ROTATED_FILES.clientsTrustBundle)),
    'requestheader-client-ca-file': certificatesIn(
      await readText(files, ROTATED_FILES.frontProxyTrustBundle),
    ),
  };
  const kubectl = async (...args: string[]): Promise<string> => {
    const at = ['--kubeconfig', PATHS.adminConf, '--namespace', 'kube-system'];
    const argv = [`${PATHS.bin}/kubectl`, ...at, ...args] as const;
    return (await commands.run({ argv: [...argv], timeoutMs: KUBECTL_MS, signal })).stdout;
  };
  const name = ['configmap', 'extension-apiserver-authentication'];
  const { data } = shape.parse(JSON.parse(await kubectl('get', ...name, '--output', 'json')));
  const kept: Record<string, string> = {};
  for (const [key, certificates] of Object.entries(trusted)) {
    const listed = certificatesIn(data[key] ?? '');
    if (listed.some((pem) => !certificates.includes(pem))) kept[key] = certificates.join('');
  }
  if (Object.keys(kept).length > 0)
    await kubectl('patch', ...name, '--type', 'merge', '--patch', JSON.stringify({ data: kept }));
}

/** The certificates in a PEM bundle, each normalized to the same form. */
function certificatesIn(bundle: string): readonly string[] {
  return [...bundle.matchAll(CERTIFICATE)].map(([pem]) => `${pem.replaceAll(/\s*\r?\n\s*/g, '\n')}\n`);
}
