// A fetch that returns when the whole answer is here. A client that retries fetch then also retries an answer that was
// cut in its body.
export async function wholeFetch(input, init) {
  const response = await fetch(input, init);
  const body = await response.arrayBuffer();
  return new Response(body.byteLength > 0 ? body : null, response);
}
