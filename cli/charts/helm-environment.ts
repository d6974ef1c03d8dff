/** Environment variables for helm: its directories, proxies, and trusted CAs. */
const HELM_ENV =
  /^(HOME|PATH|XDG_[A-Z_]+|HELM_[A-Z_]+|SSL_CERT_(FILE|DIR)|(HTTPS?|NO)_PROXY|(https?|no)_proxy)$/;
/** These would lead helm to another cluster than the kubeconfig names, or to releases outside of Secrets, where nothing else looks for them. */
const ELSEWHERE_ENV = /^HELM_(KUBE|DRIVER|NAMESPACE)/;
const PROXY_ENV = /^(https?|no)_proxy$/i;

/**
 * The environment of helm: the operator's own, with the proxy of cluster.yaml instead of the operator's if there is one. helm calls the
 * API server itself, which is never reached through a proxy.
 * @param env the environment of this program
 * @param proxy variables for the proxy of the cluster; empty without one
 * @param apiServer host of the API server
 */
export function helmEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  proxy: Readonly<Record<string, string>>,
  apiServer: string,
): Readonly<Record<string, string>> {
  const hasProxy = Object.keys(proxy).length > 0;
  const kept = Object.entries(env).flatMap(([name, value]) =>
    HELM_ENV.test(name) &&
    !ELSEWHERE_ENV.test(name) &&
    value !== undefined &&
    !(hasProxy && PROXY_ENV.test(name))
      ? [[name, value]]
      : [],
  );
  const merged = { ...(Object.fromEntries(kept) as Record<string, string>), ...proxy };
  if (!Object.keys(merged).some((name) => /^https?_proxy$/i.test(name))) return merged;
  // Go programs read the upper-case variable first.
  const exceptions = merged['NO_PROXY'] ?? merged['no_proxy'] ?? '';
  return { ...merged, NO_PROXY: exceptions === '' ? apiServer : `${exceptions},${apiServer}` };
}
