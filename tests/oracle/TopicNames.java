import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.internals.Topic;

/**
 * Checks topic names with Kafka's own class.
 *
 * <p>A request is a line on stdin: a name in UTF-16BE, in hexadecimal, because a name may contain anything. Its answer
 * is a line on stdout in the same form: empty for a name that Kafka accepts, or the message of its exception.
 */
final class TopicNames {
    public static void main(String[] arguments) throws Exception {
        HexFormat hex = HexFormat.of();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            byte[] bytes = hex.parseHex(line);
            char[] name = new char[bytes.length / 2]; // no decoder: half a surrogate pair stays what it is
            for (int i = 0; i < name.length; i++) {
                name[i] = (char) ((bytes[2 * i] & 0xff) << 8 | bytes[2 * i + 1] & 0xff);
            }
            StringBuilder answer = new StringBuilder();
            try {
                Topic.validate(new String(name));
            } catch (InvalidTopicException rejected) {
                for (char c : rejected.getMessage().toCharArray()) {
                    answer.append(hex.toHexDigits(c));
                }
            }
            System.out.println(answer);
        }
    }
}
