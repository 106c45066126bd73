// SPDX-License-Identifier: Apache-2.0
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;

/** A cache of entries of 1 KiB that is filled once; each request reads one of its hot tenth and makes some garbage. */
public class Cache {
    private static final int VALUE_BYTES = 1024;

    public static void main(String[] words) {
        int entries = Integer.parseInt(words[0]), requests = Integer.parseInt(words[1]);
        var random = new Random(1);
        var cache = new ConcurrentHashMap<Integer, byte[]>(entries * 2);
        for (int key = 0; key < entries; key++) {
            var value = new byte[VALUE_BYTES];
            random.nextBytes(value);
            cache.put(key, value);
        }
        var taken = new long[requests];
        long sum = 0, begun = System.nanoTime();
        for (int nr = 0; nr < requests; nr++) {
            long asked = System.nanoTime();
            byte[] value = cache.get(random.nextInt(Math.max(1, entries / 10)));
            var answer = new StringBuilder();
            for (int at = 0; at < 64; at++) {
                answer.append(value[at]).append(',');
            }
            sum += answer.toString().hashCode();
            taken[nr] = System.nanoTime() - asked;
        }
        double seconds = (System.nanoTime() - begun) / 1e9;
        Arrays.sort(taken);
        System.out.printf(
            "{\"roi_s\": %.6f, \"ops_per_s\": %.1f, \"p99_ms\": %.6f, \"sum\": %d}%n",
            seconds, requests / seconds, taken[(int) (requests * 0.99)] / 1e6, sum);
    }
}
