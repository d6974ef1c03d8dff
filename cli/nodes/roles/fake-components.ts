/** What a control plane says of its parts when all of them are ready; with a reason, its API server is not. */
export function reportedComponents(whyNoApi = '') {
  return [
    { name: 'kube-apiserver', ready: whyNoApi === '', why: whyNoApi, sinceMs: 1n },
    { name: 'kube-controller-manager', ready: true, why: '', sinceMs: 1n },
    { name: 'kube-scheduler', ready: true, why: '', sinceMs: 1n },
  ];
}
